package secretscan

import (
	"bytes"
	"hash/crc32"
)

// checkGitHub checks the prefix's 36 characters: 30 random ones, and their CRC32 in base 62 with leading zeros.
func checkGitHub(v view, at int) (hit, bool) {
	text, ended := run(v.content, at+4, alnum)
	ok := ended && len(text) == 36 && begins(v.content, at) && string(checksum62(text[:30])) == string(text[30:])
	return hit{GitHub, at}, ok
}

func checksum62(s []byte) []byte {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	out := bytes.Repeat([]byte("0"), 6)
	for sum, i := crc32.ChecksumIEEE(s), 5; sum > 0; sum, i = sum/62, i-1 {
		out[i] = digits[sum%62]
	}
	return out
}

// checkFineGrained checks github_pat_, 22 characters, an underscore and 59 more.
func checkFineGrained(v view, at int) (hit, bool) {
	text, ended := run(v.content, at+len("github_pat_"), wordByte)
	return hit{GitHub, at}, ended && len(text) == 82 && text[22] == '_' && begins(v.content, at) && mixed(text)
}

// checkGitLab checks a prefix with at least 20 characters behind it; newer tokens are longer and have dots before a
// checksum.
func checkGitLab(prefix string) func(v view, at int) (hit, bool) {
	return func(v view, at int) (hit, bool) {
		text, _ := run(v.content, at+len(prefix), urlByte)
		return hit{GitLab, at}, len(text) >= 20 && len(text) <= 300 && begins(v.content, at) && mixed(text)
	}
}

// checkSlack checks tokens of the forms xoxb-digits-digits-random and xapp-1-A...-digits-random.
func checkSlack(v view, at int) (hit, bool) {
	text, ended := run(v.content, at+5, func(b byte) bool { return alnum(b) || b == '-' })
	random := text[bytes.LastIndexByte(text, '-')+1:]
	digits := bytes.Count(text, []byte("-")) >= 2 && distinct(bytes.Map(keepDigits, text)) >= 3
	return hit{Slack, at}, ended && begins(v.content, at) && digits && len(random) >= 20 && distinct(random) >= 8
}

func keepDigits(r rune) rune {
	if r >= '0' && r <= '9' {
		return r
	}
	return -1
}

// checkSlackHook checks T and B ids and 24 random characters.
func checkSlackHook(v view, at int) (hit, bool) {
	text, _ := run(v.content, at+len("hooks.slack.com/services/"), func(b byte) bool { return alnum(b) || b == '/' })
	parts := bytes.Split(text, []byte("/"))
	ok := len(parts) == 3 && len(parts[0]) >= 9 && parts[0][0] == 'T' && len(parts[1]) >= 9 && parts[1][0] == 'B' &&
		len(parts[2]) == 24
	return hit{Slack, at}, ok && mixed(parts[2])
}

func checkHuggingFace(v view, at int) (hit, bool) {
	text, ended := run(v.content, at+3, alnum)
	return hit{HuggingFace, at}, ended && len(text) == 34 && !sameCase(text) && distinct(text) >= 10
}

func sameCase(s []byte) bool {
	return bytes.Equal(s, bytes.ToLower(s)) || bytes.Equal(s, bytes.ToUpper(s))
}

func checkNPM(v view, at int) (hit, bool) {
	text, ended := run(v.content, at+4, alnum)
	return hit{NPM, at}, ended && len(text) == 36 && begins(v.content, at) && mixed(text)
}

// checkOpenAI looks back for the sk- of a key, in whose middle the anchor stands.
func checkOpenAI(v view, at int) (hit, bool) {
	begin := back(v.content, at, 200, urlByte)
	begin += max(0, bytes.LastIndex(v.content[begin:at], []byte("sk-")))
	text, ended := run(v.content, begin, urlByte)
	ok := ended && bytes.HasPrefix(text, []byte("sk-")) && len(text) >= 48 && at-begin >= 20 && begins(v.content, begin)
	return hit{OpenAI, begin}, ok && mixed(text)
}

func checkAnthropic(v view, at int) (hit, bool) {
	text, ended := run(v.content, at+len("sk-ant-"), urlByte)
	return hit{Anthropic, at}, ended && len(text) >= 80 && begins(v.content, at) && mixed(text)
}

func checkDockerHub(v view, at int) (hit, bool) {
	text, ended := run(v.content, at+len("dckr_pat_"), urlByte)
	return hit{DockerHub, at}, ended && len(text) == 27 && begins(v.content, at) && mixed(text)
}

func checkVault(v view, at int) (hit, bool) {
	text, ended := run(v.content, at+4, urlByte)
	return hit{Vault, at}, ended && len(text) >= 24 && len(text) <= 400 && begins(v.content, at) && mixed(text)
}

const bech32 = "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"

func checkAge(v view, at int) (hit, bool) {
	text, ended := run(
		v.content, at+len("AGE-SECRET-KEY-1"), func(b byte) bool { return bytes.IndexByte([]byte(bech32), b) >= 0 },
	)
	return hit{PrivateKey, at}, ended && len(text) == 58 && distinct(text) >= 10
}

// back returns where the run of class begins that ends at a place, at most limit bytes before it.
func back(content []byte, at, limit int, class func(byte) bool) int {
	begin := at
	for begin > max(0, at-limit) && class(content[begin-1]) {
		begin--
	}
	return begin
}
