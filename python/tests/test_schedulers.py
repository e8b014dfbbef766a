"""The examples for Slurm and Kubernetes have sites that load, and peers that these admit. Nothing of them is run."""

import re
import shutil
import subprocess
import textwrap
import unittest

import support
import weft_fabric as weft

CONF = support.ROOT / "conf"


class Schedulers(unittest.TestCase):
    def check_site(self, text, peer):
        site = weft.Site(text)
        self.assertTrue(site.get("trainer.listen").endswith(":7117"))
        self.assertEqual(site.get("security.mode"), "tls")
        self.assertEqual(site.get("peer.provider", peer), "stream")
        with self.assertRaises(weft.CallError):
            site.get("peer.provider", "other-1")

    def test_slurm(self):
        script = (CONF / "slurm.sbatch").read_text()
        (text,) = re.findall(r"<<INI\n(.*?)^INI$", script, re.M | re.S)
        self.check_site(text.replace("$trainer", "node-1").replace("$key", "/home/me/weft-1.key"), "rollout-2")
        subprocess.run(["bash", "-n", CONF / "slurm.sbatch"], check=True)
        if shutil.which("shellcheck"):
            subprocess.run(["shellcheck", CONF / "slurm.sbatch"], check=True)

    def test_kubernetes(self):
        manifest = (CONF / "kubernetes.yaml").read_text()
        (text,) = re.findall(r"site.ini: \|\n(.*?)^---$", manifest, re.M | re.S)
        self.check_site(textwrap.dedent(text), "rollout-7d4b9c6f5-x2x9z")
        for wanted in ("trainer-0.trainer:7117", "serviceName: trainer", "secretName: weft-key", "$(POD_NAME)"):
            self.assertIn(wanted, manifest)


if __name__ == "__main__":
    support.main()
