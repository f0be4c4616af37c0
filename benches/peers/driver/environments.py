"""Installs and builds: virtual environments of the Python peers, the Rust workers."""

import glob
import os
import shutil
import subprocess

from .plan import HERE

# peer -> (Python version, its script, pinned requirements)
PYTHON_PEERS = {
    "openfhe": ("3.10", "openfhe_worker.py", ("openfhe==1.6.1.0.22.4", "numpy==2.2.6")),
    "tenseal": ("3.11", "tenseal_worker.py", ("tenseal==0.3.18", "numpy==2.4.6")),
}
# Peers that are another set of parameters for the same worker.
SAME_WORKER = {"openfhe-dnum4": "openfhe"}

# The fast backend is chosen at compile time.
POULPY_FLAGS = "-C target-cpu=native"


class SetupError(Exception):
    """A worker cannot be installed or built."""


def run(command, **kwargs):
    """Runs a command quietly. Raises SetupError with the end of its output."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **kwargs)
    except OSError as e:
        raise SetupError(f"{command[0]}: {e}") from None
    if done.returncode != 0:
        lines = done.stdout.decode(errors="replace").strip().splitlines()
        errors = [line for line in lines if line.lower().startswith("error")]
        raise SetupError(f"{' '.join(command[:4])}: {(errors or lines or ['failed'])[0][:300]}")


def runs_as(python, version):
    """Whether this interpreter starts and is of this version."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run([python, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.decode().strip() == version


def find_python(version):
    """An interpreter of this version: CIPHERLOOM_PYTHON310, then the PATH, then pyenv's."""
    variable = "CIPHERLOOM_PYTHON" + version.replace(".", "")
    named = os.environ.get(variable)
    candidates = [named] if named else []
    candidates += filter(None, [shutil.which(f"python{version}")])
    candidates += sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}*/bin/python")))
    for python in candidates:
        if runs_as(python, version):
            return python
    raise SetupError(f"no Python {version}: install it, or name it in {variable}")


def python_worker(peer):
    """The command of a Python peer's worker; installs it on first use."""
    version, script, requirements = PYTHON_PEERS[peer]
    venv = os.path.join(HERE, f".venv-{peer}")
    python = os.path.join(venv, "bin", "python")
    marker = os.path.join(venv, "installed.txt")
    wanted = "\n".join((version,) + requirements)
    try:
        with open(marker, encoding="utf-8") as f:
            ready = f.read() == wanted
    except OSError:
        ready = False
    if not ready:
        shutil.rmtree(venv, ignore_errors=True)
        run([find_python(version), "-m", "venv", venv])
        run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])
        with open(marker, "w", encoding="utf-8") as f:
            f.write(wanted)
    return [python, os.path.join(HERE, script)]


def target_dir():
    """Where cargo builds."""
    return os.environ.get("CARGO_TARGET_DIR") or os.path.join(HERE, "target")


def rust_worker(package):
    """The command of a worker of this directory's workspace; builds it."""
    target = target_dir()
    # Not --locked: a dependency more in our crates must not fail the benchmark. The peer is pinned by "=".
    run(["cargo", "build", "--release", "-p", package, "--target-dir", target], cwd=HERE)
    return [os.path.join(target, "release", package)]


def poulpy_worker():
    """The command of poulpy's worker; builds it with the nightly compiler."""
    target = os.path.join(target_dir(), "poulpy")
    # An own directory, for its flags differ from the others'.
    env = dict(os.environ, RUSTFLAGS=POULPY_FLAGS)
    env.pop("CARGO_ENCODED_RUSTFLAGS", None)
    toolchain = os.environ.get("CIPHERLOOM_NIGHTLY", "nightly")
    command = ["cargo", f"+{toolchain}", "build", "--release", "--locked", "--target-dir", target]
    run(command, cwd=os.path.join(HERE, "poulpy"), env=env)
    return [os.path.join(target, "release", "peers-poulpy")]


def command_of(worker):
    """The command of a worker by the peer's name; installs or builds what it needs."""
    worker = SAME_WORKER.get(worker, worker)
    if worker in PYTHON_PEERS:
        return python_worker(worker)
    if worker == "poulpy":
        return poulpy_worker()
    return rust_worker({"ours": "peers-ours", "tfhe-ntt": "peers-tfhe-ntt"}[worker])
