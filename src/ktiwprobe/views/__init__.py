"""What people look at: tables, terminal, figures, notebooks and the page."""
