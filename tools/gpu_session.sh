#!/usr/bin/env bash
# Checks and times the CUDA target on a GPU machine that has PyTorch and nvcc, but no registry and no TileLang.
#   usage: gpu_session.sh SITE OUT STAGE...      stages: build test cpu bench sanitize
# SITE holds site.tar.xz, with TileLang, what it needs and the wheels of this tree unpacked; results go to OUT.
set -uo pipefail
site=$1 out=$2; shift 2
here=$(cd "$(dirname "$0")/.." && pwd)
cd "$here"
mkdir -p "$out" /tmp/site
[ -e /tmp/site/tilelang ] || tar -C /tmp/site -xJf "$site/site.tar.xz"
rm -rf /tmp/site/tilevl*
for wheel in "$site"/wheels/*.whl; do python3 -m zipfile -e "$wheel" /tmp/site; done
export PYTHONPATH=/tmp/site TILEVL_CACHE_DIR=/tmp/tilevl-cache TILELANG_PRINT_ON_COMPILATION=0 PYTHONDONTWRITEBYTECODE=1
ops=${OPS:-replace_input_embeds shuffle_image_tokens prepare_image_attn_pos_id bmp_to_patches}
workers=${WORKERS:-8}
suite=(python3 -m pytest -q -p no:benchmark -p no:cacheprovider -o filterwarnings=default --tb=short)

for stage in "$@"; do
  start=$(date +%s)
  case $stage in
    build) python3 tools/build_cuda.py $ops ;;
    test)
      for op in $ops; do
        TILEVL_REQUIRE=cuda "${suite[@]}" -n "$workers" --target cuda -k "${CHOSEN:-test}" "packages/$op" >"$out/test-$op.txt" 2>&1 &
      done
      TILEVL_REQUIRE=cuda "${suite[@]}" shared/core/tests/test_cuda.py >"$out/test-core.txt" 2>&1 &
      wait
      for file in "$out"/test-*.txt; do
        echo "== $file"; grep -E "^(FAILED|ERROR)" "$file" | cut -c1-230 | head -15; tail -1 "$file"
      done ;;
    cpu)
      for op in $ops; do
        "${suite[@]}" -n "$workers" --target cpu "packages/$op" >"$out/cpu-$op.txt" 2>&1
        echo "== cpu $op"; grep -E "^(FAILED|ERROR)" "$out/cpu-$op.txt" | cut -c1-200 | head -8; tail -1 "$out/cpu-$op.txt"
      done ;;
    bench)
      for op in $ops; do
        COLUMNS=150 python3 "packages/$op/benchmarks/bench.py" --target cuda --out "$out/bench" 2>&1 | tail -45
      done ;;
    sanitize)  # only the ops' own kernels are watched; build first, or the compilers are watched too
      chosen="result_is_the_oracle or out_of_range or one_row_wins or leave_the or outside_of_all or first_byte or many_"
      for op in $ops; do
        case $op in
          replace_input_embeds) kernels=("kns=replace_" "kns=index_") ;;
          shuffle_image_tokens) kernels=("kns=shuffle_") ;;
          prepare_image_attn_pos_id) kernels=("kns=pos_id_") ;;
          bmp_to_patches) kernels=("kns=bmp_") ;;
          attn_rel_h_rel_w) kernels=("kns=attn_general" "kns=attn_wgmma") ;;
        esac
        for tool in memcheck racecheck; do
          for kernel in "${kernels[@]}"; do
            TILEVL_REQUIRE=cuda PYTORCH_NO_CUDA_MEMORY_CACHING=1 timeout "${LIMIT:-150}" compute-sanitizer --tool "$tool" \
              --kernel-name "$kernel" --launch-timeout 600 --log-file "$out/$tool-${kernel#kns=}.txt" \
              "${suite[@]}" --target cuda "packages/$op/tests" -k "${SANITIZED:-$chosen}" >"$out/$tool-${kernel#kns=}-pytest.txt" 2>&1 &
          done
        done
      done
      wait
      for log in "$out"/*check-*-pytest.txt; do
        echo "== $(basename "${log%-pytest.txt}"): $(tail -1 "$log"); $(tail -1 "${log%-pytest.txt}.txt")"
      done ;;
  esac
  echo "-- $stage: $(($(date +%s) - start)) s"
done
