#!/bin/sh
# Signs what is handed out, or checks it. Signatures are ssh-keygen's: whoever has OpenSSH 8.2 or newer can check them.
#   packaging/checksums.sh sign DIR KEY            writes DIR/SHA256SUMS and DIR/SHA256SUMS.sig with a private key of ssh
#   packaging/checksums.sh check DIR SIGNERS       SIGNERS: a line `releases@solocore ssh-ed25519 AAAA...` a key
# Exit codes: 0 all files are what was signed, 1 one is not, or is missing, or was not signed; 2 bad usage.
set -eu
NAMESPACE=solocore-release WHO=releases@solocore
usage() { sed -n 's/^#   //p' "$0" >&2; exit 2; }
[ $# = 3 ] || usage
dir=$2 key=$(realpath "$3")
[ -d "$dir" ] || { echo "checksums: $dir is no directory" >&2; exit 2; }
[ -f "$key" ] || { echo "checksums: $3 is no file" >&2; exit 2; }
cd "$dir"
files() { find . -maxdepth 1 -type f ! -name SHA256SUMS ! -name SHA256SUMS.sig | sed 's|^\./||' | LC_ALL=C sort; }
case $1 in
sign)
	[ -n "$(files)" ] || { echo "checksums: $dir has no files" >&2; exit 2; }
	files | xargs -d '\n' sha256sum >SHA256SUMS
	rm -f SHA256SUMS.sig
	ssh-keygen -q -Y sign -f "$key" -n $NAMESPACE SHA256SUMS
	;;
check)
	for file in SHA256SUMS SHA256SUMS.sig; do
		[ -f $file ] || { echo "checksums: $dir/$file is missing" >&2; exit 1; }
	done
	# The list is believed only once its signature holds.
	ssh-keygen -q -Y verify -f "$key" -I $WHO -n $NAMESPACE -s SHA256SUMS.sig <SHA256SUMS || {
		echo "checksums: $dir/SHA256SUMS was not signed by a key of $3; do not use these files" >&2
		exit 1
	}
	sha256sum --quiet --strict --check SHA256SUMS || { echo "checksums: $dir has a file that was changed; do not use it" >&2; exit 1; }
	unsigned=$(files | while read -r file; do grep -q -F -x "$(printf '%s' "$(sha256sum "$file")")" SHA256SUMS || echo "$file"; done)
	[ -z "$unsigned" ] || { echo "checksums: not signed: $unsigned" >&2; exit 1; }
	;;
*) usage ;;
esac
