import unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1, 1)
