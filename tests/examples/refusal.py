# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How the programs of the examples refuse options."""
import subprocess


def assert_refuses(test, command, *said):
    """The command ends with status 2, prints nothing and says one line that has each of these texts."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    test.assertEqual(done.returncode, 2, command)
    test.assertEqual(done.stdout, "", command)
    for text in said:
        test.assertIn(text, done.stderr, command)
    test.assertEqual(done.stderr.count("\n"), 1, done.stderr)
