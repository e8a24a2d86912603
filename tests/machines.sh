#!/usr/bin/env bash
# Runs the suite under settings that stand for other machines ("lanes"); one line for each.
#
#   tests/machines.sh                             all lanes
#   tests/machines.sh openblas-nehalem no-home    these
#   tests/machines.sh random-1+locale-c+no-home   several at once
#
# PYTHON is the interpreter (.venv/bin/python), PYTEST_ARGS what pytest is given ("-n 2"; with folders, a
# part is run), LOGS the folder of the logs (lab/machines). Ends with 1 where a lane is not green.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2
python=${PYTHON:-.venv/bin/python}
logs=${LOGS:-lab/machines}
read -r -a pytest_args <<<"${PYTEST_ARGS--n 2}"
export MPLBACKEND=Agg OMP_NUM_THREADS=1 # as in `make test`

lanes=(native mkl-compatible torch-default torch-avx2 onednn-sse41 openblas-nehalem numpy-baseline
  one-thread two-threads columns-40 columns-200 locale-c no-home no-numba-cache
  random-1 random-2 random-3 each-file)

setting() { # What `env` is given in a lane.
  case $1 in
    native) echo --unset=OMP_NUM_THREADS ;;
    mkl-compatible) echo MKL_CBWR=COMPATIBLE ;;
    torch-default) echo ATEN_CPU_CAPABILITY=default ;;
    torch-avx2) echo ATEN_CPU_CAPABILITY=avx2 ;;
    onednn-sse41) echo ONEDNN_MAX_CPU_ISA=SSE41 ;;
    openblas-nehalem) echo OPENBLAS_CORETYPE=Nehalem ;;
    numpy-baseline) echo "NPY_DISABLE_CPU_FEATURES=$(numpy_features)" ;;
    one-thread) echo OMP_NUM_THREADS=1 ;;
    random-[0-9]* | each-file) echo MPLBACKEND=Agg ;; # nothing else: these are orders
    two-threads) echo OMP_NUM_THREADS=2 ;;
    columns-40) echo COLUMNS=40 ;;
    columns-200) echo COLUMNS=200 ;;
    locale-c) echo LC_ALL=C ;;
    no-home) echo --unset=HOME ;;
    no-numba-cache) echo "NUMBA_CACHE_DIR=$PWD/pyproject.toml/cache" ;; # below a file are no folders
    *) return 1 ;;
  esac
}

numpy_features() { # What this processor has and numpy has code for, beyond numpy's baseline.
  "$python" -c 'import numpy; print(*numpy.show_config("dicts")["SIMD Extensions"]["found"])'
}

test_files() {
  "$python" -m pytest -q --collect-only "${pytest_args[@]}" |
    sed -n 's/^\(tests[^:]*\.py\)::.*/\1/p' | uniq
}

lane_passes() {
  case +$1 in
    *+random-*)
      local seed=${1#*random-}
      run "$1" -p randomly --randomly-seed="${seed%%+*}" "${pytest_args[@]}"
      ;;
    *+each-file*) # two at once
      export -f run setting numpy_features
      export python logs
      test_files | xargs -P 2 -I{} bash -c 'run "$1" -p no:cacheprovider "$2"' run "$1" {}
      ;;
    *) run "$1" "${pytest_args[@]}" ;;
  esac
}

run() { # LANE PYTEST-ARGUMENT ...
  local lane=$1 part settings=()
  for part in ${lane//+/ }; do
    case $part in
      native | no-home) settings=("$(setting "$part")" "${settings[@]}") ;; # `env` has options first
      *) settings+=("$(setting "$part")") ;;
    esac
  done
  shift
  # In one piece, as two may write.
  local output status
  output=$(env "${settings[@]}" "$python" -m pytest -q "$@" 2>&1 </dev/null)
  status=$?
  printf '%s\n' "$output" >>"$logs/$lane.log"
  [ "$status" -eq 5 ] || return "$status" # 5: all tests of a file are marked slow
}

count() { # LANE OUTCOME, over the last lines of all runs of pytest in a log.
  grep -E '^[0-9]+ .* in [0-9.]+s' "$logs/$1.log" | grep -oE "[0-9]+ ($2)" |
    awk '{ sum += $1 } END { print sum + 0 }'
}

for lane in ${*//+/ }; do
  setting "$lane" >/dev/null || { echo "no lane '$lane': take of ${lanes[*]}" >&2 && exit 2; }
done
[ $# -gt 0 ] && lanes=("$@")
mkdir -p "$logs" || exit 2
red=0
for lane in "${lanes[@]}"; do
  start=$SECONDS
  : >"$logs/$lane.log"
  lane_passes "$lane" && [ "$(count "$lane" passed)" -gt 0 ] || red=1
  printf '%-40s %6d passed %5d failed %6d s\n' \
    "$lane" "$(count "$lane" passed)" "$(count "$lane" 'failed|error')" $((SECONDS - start))
done
exit "$red"
