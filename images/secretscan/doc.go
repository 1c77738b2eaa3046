// Package secretscan finds what must not be published in the files of an environment: private keys, proxies, tokens,
// passwords.
//
// What it promises: a finding names a file, a line and a kind, never the secret's text. Each kind is told by a form
// that its maker published (a PEM label around bytes that are a key, a token whose prefix, length, alphabet and
// checksum fit, a configuration file that is read as its program reads it), so that a freeze is not stopped by a look
// alike. There is no guessing by entropy. What has ended by its own words (an expired token or proxy) is no secret any
// more, and what a published package ships (its tests' keys) never was one: see [Scanner.Report]. Other files cost one
// pass over their bytes.
//
// What it must not do: open files of its own, know sessions or squashfs, or change anything. It guards against
// accidents: who wants to hide a secret from it can.
//
// Of a file of more than 1 MiB the first MiB is looked at, and of text up to 16 MiB, 64 MiB in all: what stands behind
// that is not looked at, nor is what archives and compressed files hold.
//
// Left alone on purpose: hashes of passwords, tokens that die with the program that made them (a Jupyter server's own),
// encrypted vaults but for keys and key stores, and keys for browsers that their makers call public.
package secretscan
