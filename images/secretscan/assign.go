package secretscan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
)

// value returns the run of class that is assigned to a name which ends at a place: behind quotes, a colon or an equals
// sign.
func value(content []byte, at int, class func(byte) bool) (text []byte, begin int, ok bool) {
	begin = at
	for begin < min(len(content), at+16) && bytes.IndexByte([]byte(" \t\"'\\:=,>`|[]()u"), content[begin]) >= 0 {
		begin++
	}
	sign := bytes.IndexAny(content[at:begin], ":=,")
	text, ok = run(content, begin, class)
	return text, begin, ok && sign >= 0
}

func checkHex(k Kind, length int) func(v view, at int) (hit, bool) {
	return func(v view, at int) (hit, bool) {
		name, _ := run(v.content, at, wordByte)
		text, begin, ok := value(v.content, at+len(name), hexByte)
		return hit{k, begin}, ok && len(text) == length && distinct(text) >= 8 && !counted(text)
	}
}

// counted says whether hex digits count up, as examples do.
func counted(text []byte) bool {
	return bytes.Contains(text, []byte("01234567")) || bytes.Contains(text, []byte("12345678")) ||
		bytes.Contains(text, []byte("abcdefab"))
}

func checkAWSSecret(v view, at int) (hit, bool) {
	name, _ := run(v.content, at, wordByte)
	text, begin, ok := value(v.content, at+len(name), secretKeyByte)
	return hit{AWS, begin}, ok && awsSecret(text)
}

// awsSecret says whether text has the form of a secret access key: 40 characters. AWS's published examples hold a word.
func awsSecret(text []byte) bool {
	return len(text) == 40 && mixed(text) && !bytes.Contains(text, []byte("EXAMPLE"))
}

// checkAWSPair checks a key's id and searches the secret near it: the id alone opens nothing.
func checkAWSPair(v view, at int) (hit, bool) {
	text, ended := run(v.content, at, alnum)
	if !ended || len(text) != 20 || !begins(v.content, at) || bytes.HasSuffix(text, []byte("EXAMPLE")) ||
		distinct(text) < 8 {
		return hit{}, false
	}
	for _, b := range text[4:] {
		if !(b >= 'A' && b <= 'Z' || b >= '2' && b <= '7') {
			return hit{}, false
		}
	}
	from := max(0, at-300)
	near := v.content[from:min(len(v.content), at+320)]
	for i := 0; i < len(near); {
		part, ended := run(near, i, secretKeyByte)
		if ended && awsSecret(part) {
			return hit{AWS, from + i}, true
		}
		i += len(part) + 1
	}
	return hit{}, false
}

// checkDockerAuths reads the object that "auths" names. A login is base64 of user:password; others are left to the helpers
// that are named beside it.
func checkDockerAuths(v view, at int) (hit, bool) {
	rest := bytes.TrimLeft(v.content[at+len(`"auths"`):], " \t\r\n")
	if !bytes.HasPrefix(rest, []byte(":")) {
		return hit{}, false
	}
	var auths map[string]json.RawMessage
	if json.NewDecoder(bytes.NewReader(rest[1:])).Decode(&auths) != nil {
		return hit{}, false
	}
	for _, raw := range auths {
		if dockerLogin(raw) {
			return hit{RegistryLogin, at}, true
		}
	}
	return hit{}, false
}

func dockerLogin(raw json.RawMessage) bool {
	var a struct{ Auth, IdentityToken, RegistryToken string }
	if json.Unmarshal(raw, &a) != nil {
		return false
	}
	plain, err := base64.StdEncoding.DecodeString(a.Auth)
	_, password, ok := bytes.Cut(plain, []byte(":"))
	return len(a.IdentityToken) > 10 || len(a.RegistryToken) > 10 || err == nil && ok && !placeholder(password)
}

// checkGoogleUser reads the smallest object around the anchor.
func checkGoogleUser(v view, at int) (hit, bool) {
	begin := bytes.LastIndexByte(v.content[:at], '{')
	if begin < 0 {
		return hit{}, false
	}
	var c struct {
		Type    string `json:"type"`
		Refresh string `json:"refresh_token"`
		Secret  string `json:"client_secret"`
	}
	err := json.NewDecoder(bytes.NewReader(v.content[begin:])).Decode(&c)
	return hit{ServiceAccount, begin}, err == nil && c.Type == "authorized_user" && len(c.Refresh) >= 20 &&
		c.Secret != ""
}
