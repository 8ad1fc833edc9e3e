from ktiwprobe.testing import check_model

from ktiwprobe_additive_gru.model import AdditiveGru


def test_it_holds_to_the_contract():
    check_model(AdditiveGru)
