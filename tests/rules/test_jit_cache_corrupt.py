"""When a file of a JIT cache is broken."""

from __future__ import annotations

from _judging import findings, kinds, only, unchecked

from gpuprobe.diagnosis import Certainty, Kind

KIND = Kind.JIT_CACHE_CORRUPT
TRACE = (
    "Traceback (most recent call last):\n"
    '  File "/opt/venv/lib/python3.12/site-packages/triton/runtime/cache.py", line 93, in get_group\n'
    "    grp_data = json.load(f)\n"
    '  File "/usr/lib/python3.12/json/decoder.py", line 355, in raw_decode\n'
    '    raise JSONDecodeError("Expecting value", s, err.value) from None\n'
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
)


def test_a_traceback_out_of_the_cache_confirms_it() -> None:
    """The reader of the cache met broken JSON."""
    verdict = only(TRACE)

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert "restarting will not heal it" in verdict.summary
    assert "the cache on disk" in unchecked(verdict)


def test_broken_json_elsewhere_is_no_cache() -> None:
    """The same exception from a request's body is quiet."""
    text = TRACE.replace("triton/runtime/cache.py", "app/server/body.py").replace(
        "get_group", "parse"
    )

    assert findings(KIND, text) == []
    assert KIND not in kinds(text)


def test_words_that_fit_another_architecture_are_likely() -> None:
    """`device kernel image is invalid` may also be a file for another GPU."""
    found = findings(KIND, "RuntimeError: Triton Error [CUDA]: device kernel image is invalid\n")

    assert [item.certainty for item in found] in ([Certainty.LIKELY], [Certainty.CONFIRMED])


def test_a_lost_gpu_beside_it_stays_the_answer() -> None:
    """Both can happen: the loss comes first."""
    text = "[  100.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n" + TRACE

    assert kinds(text)[0] is Kind.DEVICE_LEFT_BUS


def test_what_inductor_raises_after_its_warning_is_fatal() -> None:
    """It warned of one entry and died of another; the warning alone is no fault."""
    warning = (
        "W0611 10:00:00.100000 77 torch/_inductor/codecache.py:1059] fx graph cache unable to load compiled graph\n"
        "_pickle.UnpicklingError: pickle data was truncated\n"
    )
    raised = "torch._inductor.exc.InductorError: EOFError: Ran out of input\n"

    assert kinds(warning) == [Kind.NO_FAULT]
    assert kinds(warning + raised) == [KIND]
