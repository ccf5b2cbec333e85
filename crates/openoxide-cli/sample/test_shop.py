"""Run with: python3 -m unittest"""

import unittest

from shop import discounted, total


class DiscountTest(unittest.TestCase):
    def test_a_quarter_off(self):
        self.assertEqual(discounted(200, 25), 150)

    def test_nothing_off(self):
        self.assertEqual(discounted(80, 0), 80)

    def test_a_basket(self):
        self.assertEqual(total([100, 50], percent=10), 135)


if __name__ == "__main__":
    unittest.main()
