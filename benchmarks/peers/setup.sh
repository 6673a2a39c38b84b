#!/usr/bin/env bash
# Make the virtual environments of the libraries that benchmarks/speed.py compares with.
#   benchmarks/peers/setup.sh            all of them
#   benchmarks/peers/setup.sh sb3 ...    only those named (tianshou1, tianshou2, sb3, d3rlpy, rllib)
# torch is pinned and installed first: an unpinned torch brings gigabytes of CUDA packages.
set -euo pipefail
cd "$(dirname "$0")"
PYTHON=${PYTHON:-python3}
TORCH=torch==2.13.0

make_env() { # name, requirements...
  local name=$1 env=.env-$1
  shift
  if [ -f "$env/.ready" ] && [ "$(cat "$env/.ready")" = "$*" ]; then
    echo "$name: ready"
    return
  fi
  echo "$name: installing $* ..."
  rm -rf "$env"
  "$PYTHON" -m venv "$env"
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check $TORCH
  "$env/bin/python" -m pip install --quiet --disable-pip-version-check $TORCH "$@"
  echo "$*" >"$env/.ready"
}

# Exact versions: gymnasium 0.28 is what Tianshou 1.0 asks for; Tianshou 2's Atari wrappers fail with NumPy > 2.2.
tianshou1() { make_env tianshou1 tianshou==1.0.0 numpy==1.24.4 gymnasium==0.28.1; }
tianshou2() { make_env tianshou2 tianshou==2.0.1 numpy==2.2.6 gymnasium==1.4.0 mujoco==3.3.7 imageio==2.37.0 packaging==25.0; }
sb3() { make_env sb3 stable-baselines3==2.9.2 gymnasium==1.4.0 mujoco==3.3.7 imageio==2.37.0 packaging==25.0; }
d3rlpy() { make_env d3rlpy d3rlpy==2.8.1 gymnasium==1.0.0 numpy==2.2.6 mujoco==3.3.7 imageio==2.37.0 packaging==25.0; }
rllib() { # for benchmarks/fleet/rllib.py alone
  make_env rllib "ray[rllib]==2.60.0" gymnasium==1.2.2 ale-py==0.12.1 opencv-python-headless==5.0.0.93
}

if [ $# -eq 0 ]; then set -- tianshou1 tianshou2 sb3 d3rlpy; fi
for peer in "$@"; do "$peer"; done
