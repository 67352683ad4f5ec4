#!/usr/bin/env bash
# Makes the packages of a release in target/packages: a tarball, a Debian package, an image in OCI's
# layout, and SHA256SUMS. The same commit gives the same bytes.
#   TARGET=x86_64-unknown-linux-gnu   a dynamic program; the default is a static one, with musl
#   PROFILE=dev                       a debug build
#   PROGRAM=path                      a program that was built before
#   COMPRESSION=-1                    the level of gzip, and gzip in the Debian package
set -euo pipefail
cd "$(dirname "$0")/.."

target=${TARGET:-x86_64-unknown-linux-musl}
profile=${PROFILE:-release}
out=${OUT:-target/packages}
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The time of all files: of the commit, or of the newest entry in the change log without git.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git show -s --format=%ct HEAD 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH

program=${PROGRAM:-}
if [ -z "$program" ]; then
	if ! rustc --print target-libdir --target "$target" | xargs test -d; then
		echo "the standard library for $target is missing: rustup target add $target" >&2
		exit 1
	fi
	SOURCE_COMMIT=${SOURCE_COMMIT:-$(git rev-parse --short=9 HEAD 2>/dev/null || true)}
	# A program from changed sources must not carry the name of a commit alone.
	[ -z "$(git status --porcelain 2>/dev/null)" ] || SOURCE_COMMIT+=-changed
	export SOURCE_COMMIT
	# Paths of the machine are no part of the program.
	export RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$PWD=/tidegate --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
	"${CARGO:-cargo}" build --locked --bin tidegate --profile "$profile" --target "$target"
	program=target/$target/${profile/#dev/debug}/tidegate
fi

rm -rf "$out"
root=$out/root
mkdir -p "$root"/usr/{bin,share/doc/tidegate/examples,share/man/man1,lib/systemd/system,lib/sysusers.d} \
	"$root"/usr/share/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d} \
	"$root"/etc/tidegate
install -m755 "$program" "$root/usr/bin/tidegate"
strip --strip-debug "$root/usr/bin/tidegate"
tidegate=$root/usr/bin/tidegate
"$tidegate" man --out "$root/usr/share/man/man1" >/dev/null
"$tidegate" completions bash >"$root/usr/share/bash-completion/completions/tidegate"
"$tidegate" completions zsh >"$root/usr/share/zsh/vendor-completions/_tidegate"
"$tidegate" completions fish >"$root/usr/share/fish/vendor_completions.d/tidegate.fish"
install -m644 LICENSE "$root/usr/share/doc/tidegate/copyright"
install -m644 CHANGELOG.md "$root/usr/share/doc/tidegate/changelog.md"
install -m644 examples/tidegate.toml examples/tidegate.yaml docs/tidegate.schema.json \
	"$root/usr/share/doc/tidegate/examples"
install -m644 deploy/systemd/tidegate.service "$root/usr/lib/systemd/system"
install -m644 deploy/systemd/sysusers.conf "$root/usr/lib/sysusers.d/tidegate.conf"
install -m644 deploy/systemd/tidegate.toml "$root/etc/tidegate"

# The tarball: the same files, for a prefix such as /usr/local.
architecture=${target%%-*}
name=tidegate-$version-$architecture-linux
mkdir "$out/$name"
cp -r "$root"/usr/bin "$root"/usr/share "$out/$name"
cp LICENSE README.md CHANGELOG.md "$out/$name"
mkdir "$out/$name/systemd"
cp deploy/systemd/* "$out/$name/systemd"
tar -C "$out" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
	--mode=go-w -cf - "$name" | gzip -n "${COMPRESSION:--9}" >"$out/$name.tar.gz"

gzip -n -9 "$root"/usr/share/man/man1/*.1
debian=$root/DEBIAN
mkdir "$debian"
cp deploy/debian/{preinst,postinst,prerm,postrm} "$debian"
echo /etc/tidegate/tidegate.toml >"$debian/conffiles"
(cd "$root" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
debian_architecture=$(sed 's/x86_64/amd64/; s/aarch64/arm64/' <<<"$architecture")
# A static program needs no library.
libraries=
# Not by `grep -q` in a pipe: it may end before ldd, which then fails the pipe.
[[ $(ldd "$tidegate" 2>/dev/null || true) != *"=>"* ]] || libraries="libc6 (>= 2.34), libgcc-s1, "
# Not by `du`: the blocks of a file that was just written depend on the file system.
size=$(find "$root" -path "$debian" -prune -o -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
cat >"$debian/control" <<END
Package: tidegate
Version: $version
Architecture: $debian_architecture
Maintainer: The Tidegate authors <tidegate@localhost>
Installed-Size: $size
Depends: ${libraries}systemd (>= 247), passwd
Recommends: ca-certificates
Section: net
Priority: optional
Description: flow control for LLM inference
 A gateway that queues, prioritises and routes requests to LLM servers: vLLM, SGLang, Ollama,
 llama.cpp or any server with an OpenAI-compatible API. Each team gets its share of the servers,
 and urgent requests go first.
END
chmod -R u=rwX,go=rX "$root"
find "$root" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group ${COMPRESSION:+-Zgzip "-z${COMPRESSION#-}"} --build "$root" \
	"$out/tidegate_${version}_$debian_architecture.deb" >/dev/null

tools/image.py "$tidegate" "$debian_architecture" "$version" "$out/image"
tar -C "$out/image" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
	-cf "$out/tidegate-$version-$architecture-image.tar" .
rm -rf "$root" "${out:?}/$name"
(cd "$out" && sha256sum ./*.tar.gz ./*.deb ./*.tar >SHA256SUMS && cat SHA256SUMS)
