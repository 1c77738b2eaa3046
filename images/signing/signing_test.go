package signing

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"slipway/internal/errs"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, dir string) *Keys {
	t.Helper()
	k, err := New(Config{Dir: dir, Site: "cern", Now: func() time.Time { return noon }, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	return k
}

func list(t testing.TB, k *Keys) []Key {
	t.Helper()
	keys, err := k.List()
	must(t, err)
	return keys
}

func TestFirstStartMakesOneKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "keys")
	first := list(t, open(t, dir))
	again := list(t, open(t, dir))
	if len(first) != 1 || !first[0].Signs || !first[0].Own() || len(again) != 1 || again[0].ID != first[0].ID {
		t.Fatalf("first %+v, then %+v", first, again)
	}
	for name, want := range map[string]os.FileMode{".": 0o700, first[0].file() + ".key": 0o600, first[0].file() + ".pem": 0o644, "trusted": 0o700} {
		info, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %04o, want %04o", name, info.Mode().Perm(), want)
		}
	}
}

func TestRotation(t *testing.T) {
	k := open(t, t.TempDir())
	old, err := k.Sign("text", []byte("before"))
	must(t, err)
	was := list(t, k)[0]
	now, err := k.Rotate()
	must(t, err)
	keys := list(t, k)
	if len(keys) != 2 || keys[0].ID != now.ID || !keys[0].Signs || keys[1].ID != was.ID || keys[1].Signs {
		t.Fatalf("after the rotation: %+v", keys)
	}
	if _, err := os.Stat(k.path(was.file() + ".key")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the retired private key is still there: %v", err)
	}
	if _, key, err := k.Open("text", old); err != nil || key.ID != was.ID {
		t.Errorf("what the old key signed: %v", err)
	}
	if err := k.Remove(now.ID); !errs.Is(err, errs.Conflict) {
		t.Errorf("removing the key that signs: %v", err)
	}
	must(t, k.Remove(was.ID))
	if _, _, err := k.Open("text", old); !errs.Is(err, errs.Forbidden) {
		t.Errorf("what a removed key signed: %v", err)
	}
	if err := k.Remove(was.ID); !errs.Is(err, errs.NotFound) {
		t.Errorf("removing it again: %v", err)
	}
}

func TestInterruptedRotationGoesOn(t *testing.T) {
	k := open(t, t.TempDir())
	old := list(t, k)[0]
	data, err := os.ReadFile(k.path(old.file() + ".key"))
	must(t, err)
	now, err := k.Rotate()
	must(t, err)
	must(t, os.WriteFile(k.path(old.file()+".key"), data, 0o600)) // the old one had not been destroyed yet
	if keys := list(t, k); !keys[0].Signs || keys[0].ID != now.ID || keys[1].Signs {
		t.Fatalf("with two private keys: %+v", keys)
	}
	_, err = k.Rotate()
	must(t, err)
	left, err := filepath.Glob(k.path("*.key"))
	must(t, err)
	if len(left) != 1 {
		t.Errorf("private keys left: %d", len(left))
	}
}

func TestSigningDuringRotations(t *testing.T) {
	k := open(t, t.TempDir())
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				e, err := k.Sign("text", []byte("x"))
				if err == nil {
					_, _, err = k.Open("text", e)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		if _, err := k.Rotate(); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	wait.Wait()
	if keys := list(t, k); len(keys) != 21 {
		t.Errorf("%d keys after 20 rotations", len(keys))
	}
}

func TestWhatOthersCouldReachIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(k *Keys, key string) error{
		"readable key":       func(k *Keys, key string) error { return os.Chmod(k.path(key+".key"), 0o640) },
		"writable directory": func(k *Keys, _ string) error { return os.Chmod(k.path("."), 0o770) },
		"writable trusted":   func(k *Keys, _ string) error { return os.Chmod(k.path("trusted"), 0o777) },
		"writable public": func(k *Keys, key string) error {
			return errors.Join(os.Remove(k.path(key+".key")), os.Chmod(k.path(key+".pem"), 0o666))
		},
		"renamed": func(k *Keys, key string) error {
			return os.Rename(k.path(key+".key"), k.path("20300101T000000Z-00.key"))
		},
		"no key":    func(k *Keys, key string) error { return os.WriteFile(k.path(key+".key"), []byte("garbage"), 0o600) },
		"directory": func(k *Keys, _ string) error { return os.Mkdir(k.path("20300101T000000Z-00.key"), 0o700) },
		"RSA": func(k *Keys, _ string) error {
			return os.WriteFile(k.path("20300101T000000Z-00.pem"), []byte(rsaKey), 0o644)
		},
		"wrong kind": func(k *Keys, key string) error { return os.Rename(k.path(key+".key"), k.path(key+".pem")) },
	} {
		t.Run(name, func(t *testing.T) {
			k := open(t, t.TempDir())
			must(t, spoil(k, list(t, k)[0].file()))
			if _, err := New(k.cfg); err == nil {
				t.Error("the directory is accepted at start")
			} else if strings.Contains(err.Error(), "garbage") {
				t.Errorf("the error shows what the file holds: %v", err)
			}
			if _, err := k.Sign("text", nil); err == nil {
				t.Error("it signs")
			}
		})
	}
}

// rsaKey is a public key of the wrong kind.
const rsaKey = `-----BEGIN PUBLIC KEY-----
MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf
9Cnzj4p4WGeKLs1Pt8QuKUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAwEAAQ==
-----END PUBLIC KEY-----
`

func TestTrust(t *testing.T) {
	desy, cern := open(t, t.TempDir()), open(t, t.TempDir())
	envelope, err := desy.Sign("text", []byte("from desy"))
	must(t, err)
	if _, _, err := cern.Open("text", envelope); !errs.Is(err, errs.Forbidden) {
		t.Fatalf("a stranger's envelope: %v", err)
	}
	key, err := cern.Trust("desy", list(t, desy)[0].PEM())
	must(t, err)
	payload, by, err := cern.Open("text", envelope)
	if err != nil || string(payload) != "from desy" || by.Site != "desy" || by.Own() || by.ID != key.ID {
		t.Fatalf("a trusted envelope: %q by %+v, %v", payload, by, err)
	}
	if own, err := cern.Sign("text", nil); err != nil || bytes.Equal(own, envelope) {
		t.Errorf("a trusted key must not sign: %v", err)
	}
	must(t, os.WriteFile(cern.path("trusted/broken.pem"), []byte("?"), 0o644))
	if _, _, err := cern.Open("text", envelope); err != nil {
		t.Errorf("a broken foreign key stops the others: %v", err)
	}
	if _, err := New(cern.cfg); err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("at start a broken foreign key must be told: %v", err)
	}
	must(t, cern.Distrust("desy"))
	if _, _, err := cern.Open("text", envelope); !errs.Is(err, errs.Forbidden) {
		t.Errorf("after Distrust: %v", err)
	}
	for _, site := range []string{"desy", "../x", ""} {
		if err := cern.Distrust(site); !errs.Is(err, errs.NotFound) {
			t.Errorf("Distrust(%q): %v", site, err)
		}
	}
	for _, site := range []string{"", "../x", "a/b", ".hidden", "DESY", strings.Repeat("a", 65)} {
		if _, err := cern.Trust(site, key.PEM()); !errs.Is(err, errs.Invalid) {
			t.Errorf("Trust(%q): %v", site, err)
		}
	}
	if _, err := cern.Trust("self", list(t, cern)[0].PEM()); !errs.Is(err, errs.Conflict) || len(list(t, cern)) != 1 {
		t.Errorf("a site's own key is trusted as another's: %v", err)
	}
	if _, err := cern.Trust("rsa", []byte(rsaKey)); !errs.Is(err, errs.Invalid) {
		t.Errorf("an RSA key is trusted: %v", err)
	}
}

func TestEveryByteOfAnEnvelopeCounts(t *testing.T) {
	k := open(t, t.TempDir())
	envelope, err := k.Sign("text", []byte("payload"))
	must(t, err)
	again, err := k.Sign("text", []byte("payload"))
	must(t, err)
	if !bytes.Equal(envelope, again) {
		t.Error("equal payloads give other envelopes")
	}
	keys := list(t, k)
	for at := range envelope {
		for bit := range 8 {
			e := bytes.Clone(envelope)
			e[at] ^= 1 << bit
			if _, _, err := openEnvelope(keys, "text", e); err == nil {
				t.Fatalf("accepted with bit %d of byte %d changed: %s", bit, at, e)
			}
		}
	}
	if _, _, err := k.Open("other", envelope); !errs.Is(err, errs.Invalid) {
		t.Errorf("as another type: %v", err)
	}
	if _, _, err := k.Open("text", append(envelope, ' ')); !errs.Is(err, errs.Invalid) {
		t.Errorf("with a space behind it: %v", err)
	}
}

func TestNoKeyIsPrinted(t *testing.T) {
	k := open(t, t.TempDir())
	key := list(t, k)[0]
	private, err := k.private(key.file())
	must(t, err)
	scalar, err := private.Bytes()
	must(t, err)
	decimal := new(big.Int).SetBytes(scalar).String()
	js, err := json.Marshal(key)
	must(t, err)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v", k, k, k), fmt.Sprintf("%v %+v %#v", key, key, key), string(js)} {
		for _, form := range []string{fmt.Sprintf("%x", scalar), decimal, fmt.Sprint(scalar)} {
			if strings.Contains(text, form) {
				t.Error("a private key is printed")
			}
		}
	}
}

func provenance() Provenance {
	return Provenance{
		Environment: "sha256:" + strings.Repeat("a1", 32), Names: []string{"ana:v1", "ana:latest"}, Site: "cern", Version: "1.2",
		Base: "sha256:" + strings.Repeat("b2", 32), Strip: "sha256:" + strings.Repeat("c3", 32), Kind: "lab", Session: "alice-1", User: "alice",
		Started: noon, Finished: noon.Add(time.Second),
	}
}

func TestStatements(t *testing.T) {
	k := open(t, t.TempDir())
	for name, change := range map[string]func(p *Provenance){
		"whole":   func(*Provenance) {},
		"no base": func(p *Provenance) { p.Base = "" },
		"unnamed": func(p *Provenance) { p.Names = nil },
	} {
		t.Run(name, func(t *testing.T) {
			want := provenance()
			change(&want)
			claim := want
			claim.Site = "somebody else"
			envelope, err := k.Attest(claim)
			must(t, err)
			got, key, err := k.Verify(envelope, want.Environment)
			must(t, err)
			if diff := cmp.Diff(want, got); diff != "" || !key.Own() {
				t.Errorf("by %+v: %s", key, diff)
			}
			if _, _, err := k.Verify(envelope, want.Strip); !errs.Is(err, errs.Invalid) {
				t.Errorf("of another environment: %v", err)
			}
		})
	}
	for name, change := range map[string]func(p *Provenance){
		"environment": func(p *Provenance) { p.Environment = "" },
		"base":        func(p *Provenance) { p.Base = "sha256:xyz" },
		"strip":       func(p *Provenance) { p.Strip = strings.ToUpper(p.Strip) },
	} {
		p := provenance()
		change(&p)
		if _, err := k.Attest(p); !errs.Is(err, errs.Invalid) {
			t.Errorf("a statement with a bad %s: %v", name, err)
		}
	}
}

func TestStatementOnTheWire(t *testing.T) {
	p := provenance()
	payload, err := p.encode()
	must(t, err)
	var pretty bytes.Buffer
	must(t, json.Indent(&pretty, payload, "", "  "))
	want, err := os.ReadFile("testdata/statement.json")
	must(t, err)
	if diff := cmp.Diff(strings.TrimSpace(string(want)), pretty.String()); diff != "" {
		t.Error(diff)
	}
}

func TestStatementsOfOthersAreRefused(t *testing.T) {
	k := open(t, t.TempDir())
	p := provenance()
	good, err := p.encode()
	must(t, err)
	for name, payload := range map[string]string{
		"no JSON":       "x",
		"other type":    strings.Replace(string(good), statementType, "https://in-toto.io/Statement/v0.1", 1),
		"other build":   strings.Replace(string(good), buildType, "urn:other", 1),
		"two subjects":  strings.Replace(string(good), strings.Repeat("a1", 32), strings.Repeat("dd", 32), 1),
		"no subject":    `{"_type":"` + statementType + `","predicateType":"` + predicateType + `"}`,
		"no site":       strings.Replace(string(good), sitePrefix, "", 1),
		"a bad base":    strings.Replace(string(good), strings.Repeat("b2", 32), "b2", 1),
		"bytes behind":  string(good) + "{}",
		"a wrong field": strings.Replace(string(good), `"subject":`, `"subject":3,"x":`, 1),
	} {
		envelope, err := k.Sign(statementMedia, []byte(payload))
		must(t, err)
		if _, _, err := k.Verify(envelope, p.Environment); !errs.Is(err, errs.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other, err := k.Sign("application/vnd.sylabs.sif-metadata+json", good)
	must(t, err)
	if _, _, err := k.Verify(other, p.Environment); !errs.Is(err, errs.Invalid) {
		t.Errorf("a statement in an envelope of another type: %v", err)
	}
}

func FuzzOpenEnvelope(f *testing.F) {
	k := open(f, f.TempDir())
	keys := list(f, k)
	good, err := k.Sign("text", []byte("payload"))
	must(f, err)
	f.Add(good)
	f.Add([]byte(`{"payloadType":"text","payload":"","signatures":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		payload, _, err := openEnvelope(keys, "text", data)
		if err == nil && (!bytes.Equal(data, good) || string(payload) != "payload") {
			t.Errorf("accepted: %s", data)
		}
	})
}

func FuzzParseStatement(f *testing.F) {
	good, err := provenance().encode()
	must(f, err)
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parseStatement(data)
		if err != nil {
			return
		}
		again, err := p.encode()
		must(t, err)
		q, err := parseStatement(again)
		must(t, err)
		if diff := cmp.Diff(p, q); diff != "" {
			t.Errorf("read and written, it is another: %s", diff)
		}
	})
}

func FuzzParsePublic(f *testing.F) {
	f.Add(list(f, open(f, f.TempDir()))[0].PEM())
	f.Add([]byte(rsaKey))
	f.Fuzz(func(t *testing.T, data []byte) {
		k, err := parsePublic(data)
		if err != nil {
			return
		}
		again, err := parsePublic(k.PEM())
		if err != nil || again.ID != k.ID {
			t.Errorf("read and written, it is another: %v", err)
		}
	})
}

func BenchmarkAttest(b *testing.B) {
	k := open(b, b.TempDir())
	p := provenance()
	for b.Loop() {
		_, err := k.Attest(p)
		must(b, err)
	}
}

func BenchmarkVerify(b *testing.B) {
	k := open(b, b.TempDir())
	p := provenance()
	envelope, err := k.Attest(p)
	must(b, err)
	for b.Loop() {
		_, _, err := k.Verify(envelope, p.Environment)
		must(b, err)
	}
}
