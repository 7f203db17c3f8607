"""The solutions of this folder against float64, in Triton's interpreter: neither a GPU nor torch is needed.

    python -m unittest -v

With the contest's heads it takes some four minutes of a processor.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"

import unittest

import kit

ON = kit.Interpreted()
SOLUTIONS = [(d, name) for d in kit.definitions().values() for name in d.solutions()]


class Rule(unittest.TestCase):
    """The benchmark's rule: an element is wrong that is off by more than 1e-2 and by more than 1 %."""

    def keeps(self, d, name, run, lengths, kind="random", **options):
        with self.subTest(solution=name, lengths=lengths, kind=kind, **options):
            for output, error, wrong, size in kit.judge(d, ON, run, lengths, kind, **options):
                self.assertEqual(wrong, 0, f"{output}: {wrong} of {size} elements are wrong, the largest error is {error:.1e} of the largest value")

    def test_calls(self):
        """With and without a state, scales that are given, None or 0, empty sequences and no token at all."""
        decode = [([1], True, None), ([1, 1], False, 0.5)]
        prefill = [([6], True, 0.0), ([2, 0, 3], False, 0.5), ([0], True, None)]
        for d, name in SOLUTIONS:
            for lengths, state, scale in prefill if d.packed else decode:
                self.keeps(d, name, kit.solution(name), lengths, state=state, scale=scale)

    def test_forms(self):
        """The forms that larger calls take, on few tokens: chunks and parts that end early, an empty sequence between."""
        for d, name in SOLUTIONS:
            for form, run in kit.forms(d, name).items():
                if d.packed and form != "short":
                    self.keeps(d, name, run, [70, 0, 3])

    def test_adversarial(self):
        """Keys that a rounded state does not bear: a decode step, and the class tf32, which claims them."""
        for d, name in SOLUTIONS:
            for kind in kit.CLASSES:
                if kind != "random" and (not d.packed or name.endswith("tf32")):
                    self.keeps(d, name, kit.solution(name), [80, 70] if d.packed else [1], kind)


class Files(unittest.TestCase):
    def test_sources(self):
        """Solutions hold what the folder kernels has."""
        for d, name in SOLUTIONS:
            for source in d.solutions()[name]["sources"]:
                self.assertEqual((kit.FOLDER / "kernels" / name / source["path"]).read_text(), source["content"])

    def test_layout(self):
        """A tensor that is not contiguous is refused."""
        for d, name in SOLUTIONS:
            call = kit.arguments(d, ON, kit.inputs(d, [2] if d.packed else [1]))
            call[0].array = call[0].array[..., ::-1]
            with self.assertRaisesRegex(ValueError, "not contiguous"):
                kit.solution(name)(*call)


if __name__ == "__main__":
    unittest.main()
