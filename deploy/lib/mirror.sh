# shellcheck shell=bash
# Finds the Debian mirror that this host's apt uses, so that no recipe names one.

# debian_mirror: prints DEBIAN_MIRROR, else the first URI of a Debian stanza in
# /etc/apt/sources.list.d/*.sources, else the first Debian line of /etc/apt/sources.list.
debian_mirror() {
  local mirror=${DEBIAN_MIRROR:-} file
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -z $mirror && -f $file ]] && mirror=$(mirror_in_stanzas "$file")
  done
  if [[ -z $mirror && -f /etc/apt/sources.list ]]; then
    mirror=$(sed -nE '/security/d; s/^deb (\[[^]]*\] )?([^ ]+) [a-z]+ main.*/\2/p' \
      /etc/apt/sources.list | head -n 1)
  fi
  [[ -n $mirror ]] || die "apt on this host names no Debian mirror: set DEBIAN_MIRROR to one"
  echo "$mirror"
}

# mirror_in_stanzas FILE: the URI of the first Debian stanza. Security archives are left out: they
# hold only updates.
mirror_in_stanzas() {
  awk 'BEGIN { RS = "" }
    /Suites: *(stable|testing|unstable|sid|bookworm|trixie|forky)( |\n)/ && !/security/ {
      n = split($0, line, "\n")
      for (i = 1; i <= n; i++) if (line[i] ~ /^URIs:/) { split(line[i], word, " "); print word[2]; exit }
    }' "$1"
}
