#!/usr/bin/env bash
# chroot.sh ROOT ARGUMENTS: runs the program of an unpacked image as the image's user, with nothing but
# the files of the image. It needs a mount namespace of its own: `unshare --mount`.
set -euo pipefail
root=$1
shift
# As a container has it.
mkdir -p "$root/dev"
mount --bind /dev "$root/dev"
exec chroot --userspec=65532:65532 "$root" /usr/bin/tidegate "$@"
