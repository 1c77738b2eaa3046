package datacheck

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"slipway/hubapi"
	"slipway/internal/datacheck/rootclient"
	"slipway/internal/mounts"
	"slipway/internal/secret"
	"slipway/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.EndAtOnce()
	if len(os.Args) == 4 && os.Args[1] == "probe" {
		if err := mounts.Probe(os.Stdout, os.Args[2], os.Args[3]); err != nil {
			fmt.Println(err)
		}
		return
	}
	os.Exit(m.Run())
}

// fake is storage that does as it is told.
type fake struct {
	list   []rootclient.Entry
	err    map[string]error // by what is done, and by that and the server
	hangs  map[string]bool
	wrote  []string
	there  map[string]bool
	before func(what string)
}

func (f *fake) do(ctx context.Context, what, server string) error {
	if f.before != nil {
		f.before(what)
	}
	if f.hangs[what] {
		<-ctx.Done()
		return ctx.Err()
	}
	return errors.Join(f.err[what], f.err[what+server])
}

func (f *fake) List(ctx context.Context, server, _ string) ([]rootclient.Entry, error) {
	return f.list, f.do(ctx, "list", server)
}

func (f *fake) Read(ctx context.Context, server, _ string, _ int) (int, error) {
	return 1000, f.do(ctx, "read", server)
}

func (f *fake) Write(ctx context.Context, server, path string, _ []byte) error {
	f.wrote = append(f.wrote, path)
	f.there[path] = true
	if err := f.do(ctx, "write", server); err != nil {
		return fmt.Errorf("%w: %w", rootclient.ErrHalf, err)
	}
	return nil
}

func (f *fake) Remove(ctx context.Context, server, path string) error {
	if err := f.do(ctx, "remove", server); err != nil {
		return err
	}
	delete(f.there, path)
	return ctx.Err()
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// usual is a look at which all is well.
func usual(t *testing.T, f *fake) Config {
	t.Helper()
	dir := t.TempDir()
	put(t, dir, "token-eos", jwt(t, map[string]any{
		"aud": "https://eos.test", "scope": "storage.read:/ storage.create:/ storage.modify:/", "exp": noon.Add(time.Hour).Unix(),
	}))
	f.there = map[string]bool{}
	return Config{
		Plan: hubapi.DataPlan{
			Now: noon, User: "alice", Issuers: []hubapi.DataIssuer{{Name: "wlcg", URL: "https://issuer.test"}},
			Storage: []hubapi.DataElement{{
				Storage: hubapi.Storage{Name: "eos", Origin: "root://eos.test", Path: "/eos", Write: true, Cache: "root://cache.test", CacheUp: true},
				Token:   "token-eos", Audience: "https://eos.test", Scopes: []string{"storage.read:/"},
			}},
		},
		Asked: noon, Now: func() time.Time { return noon }, Credentials: dir, Scratch: t.TempDir(),
		Storage: func(secret.Text) Storage { return f },
		Issuer:  func(context.Context, string) (time.Time, error) { return noon, nil },
		Remote:  func(context.Context, string) (hubapi.IssuerLook, error) { return hubapi.IssuerLook{}, nil },
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func jwt(t *testing.T, claims map[string]any) string {
	t.Helper()
	b, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return "eyJh." + base64.RawURLEncoding.EncodeToString(b) + ".c2VjcmV0c2lnbmF0dXJl"
}

func roomOf(percent int) func(context.Context) (hubapi.Quotas, error) {
	q := hubapi.Quota{Name: "home", Path: "/home/alice", Kind: "user", Used: int64(percent), Limit: 100, Percent: percent}
	return func(context.Context) (hubapi.Quotas, error) { return hubapi.Quotas{Quotas: []hubapi.Quota{q}}, nil }
}

func refused(code int, words string) error { return &rootclient.Refused{Code: code, Message: words} }

// TestFaults: what goes wrong is found, at what it is wrong with, and what to do about it is said; nothing else is said
// to be wrong.
func TestFaults(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*testing.T, *Config, *fake)
		want  string // result, check and a part of the finding; empty: all is well
	}{
		{"nothing", func(*testing.T, *Config, *fake) {}, ""},
		{"the clock is behind", func(_ *testing.T, c *Config, _ *fake) { c.Asked = noon.Add(-5 * time.Minute) }, "fail|clock|5m0s behind"},
		{"the clock is ahead", func(_ *testing.T, c *Config, _ *fake) { c.Asked = noon.Add(5 * time.Minute) }, "fail|clock|5m0s ahead"},
		{"the token is gone", func(_ *testing.T, c *Config, _ *fake) { _ = os.Remove(filepath.Join(c.Credentials, "token-eos")) }, "warn|token token-eos|there is none"},
		{"the token has ended", func(t *testing.T, c *Config, _ *fake) {
			put(t, c.Credentials, "token-eos", jwt(t, map[string]any{"exp": noon.Add(-3 * time.Minute).Unix()}))
		}, "fail|token token-eos|ended 3m0s ago"},
		{"the token is another's", func(t *testing.T, c *Config, _ *fake) {
			put(t, c.Credentials, "token-eos", jwt(t, map[string]any{"aud": []string{"https://other.test"}, "scope": "storage.read:/", "exp": noon.Add(time.Hour).Unix()}))
		}, "fail|token token-eos|https://other.test"},
		{"the token lacks a scope", func(t *testing.T, c *Config, _ *fake) {
			put(t, c.Credentials, "token-eos", jwt(t, map[string]any{"aud": "https://eos.test", "scope": "openid", "exp": noon.Add(time.Hour).Unix()}))
		}, "fail|token token-eos|lacks the scope storage.read:/"},
		{"the token only reads", func(t *testing.T, c *Config, _ *fake) {
			put(t, c.Credentials, "token-eos", jwt(t, map[string]any{"aud": "https://eos.test", "scope": "storage.read:/", "exp": noon.Add(time.Hour).Unix()}))
		}, "warn|token token-eos|lets one write"},
		{"others may read the token", func(_ *testing.T, c *Config, _ *fake) {
			_ = os.Chmod(filepath.Join(c.Credentials, "token-eos"), 0o644)
		}, "fail|token token-eos|0644"},
		{"the issuer is down", func(_ *testing.T, c *Config, _ *fake) {
			c.Issuer = func(context.Context, string) (time.Time, error) { return time.Time{}, errors.New("refused") }
			c.Remote = func(context.Context, string) (hubapi.IssuerLook, error) {
				return hubapi.IssuerLook{Trouble: "down"}, nil
			}
		}, "warn|issuer wlcg|neither here nor"},
		{"the issuer is reached by the service alone", func(_ *testing.T, c *Config, _ *fake) {
			c.Issuer = func(context.Context, string) (time.Time, error) { return time.Time{}, errors.New("refused") }
		}, ""},
		{"the issuer's clock is off", func(_ *testing.T, c *Config, _ *fake) {
			c.Issuer = func(context.Context, string) (time.Time, error) { return noon.Add(5 * time.Minute), nil }
		}, "fail|issuer wlcg|5m0s behind"},
		{"the storage is down", func(_ *testing.T, _ *Config, f *fake) {
			f.err = map[string]error{"list": errors.New("nothing listens there")}
		}, "fail|storage eos|nothing listens"},
		{"nothing listens at the storage", func(_ *testing.T, _ *Config, f *fake) {
			at := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1094}
			f.err = map[string]error{"list": fmt.Errorf("list: %w", &net.OpError{Op: "dial", Net: "tcp", Addr: at, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)})}
		}, "fail|storage eos|nothing listens at 127.0.0.1:1094"},
		{"the storage wants a token", func(_ *testing.T, _ *Config, f *fake) { f.err = map[string]error{"list": rootclient.ErrNoToken} }, "fail|storage eos|asks for a token"},
		{"the storage wants a proxy", func(_ *testing.T, _ *Config, f *fake) { f.err = map[string]error{"list": rootclient.ErrOther} }, "warn|storage eos|takes proxies"},
		{"the storage is not to be written to", func(_ *testing.T, _ *Config, f *fake) {
			f.list = []rootclient.Entry{{Name: "f", Size: 5}}
			f.err = map[string]error{"write": refused(rootclient.NotAuthorized, "permission denied")}
		}, "fail|writing to storage eos|permission denied"},
		{"the probe file stays", func(_ *testing.T, _ *Config, f *fake) {
			f.err = map[string]error{"remove": refused(rootclient.NotAuthorized, "permission denied")}
		}, "fail|writing to storage eos|could not be removed"},
		{"the cache is down", func(_ *testing.T, _ *Config, f *fake) {
			f.err = map[string]error{"readroot://cache.test": errors.New("nothing listens there")}
		}, "warn|cache of storage eos|nothing listens"},
		{"the service lacks its proxy here", func(_ *testing.T, c *Config, _ *fake) { c.Plan.Proxy = true }, "warn|X.509 proxy|here it is not"},
		{"the proxy is none", func(t *testing.T, c *Config, _ *fake) { put(t, c.Credentials, "x509", "text") }, "fail|X.509 proxy|no certificate"},
		{"the home is full", func(_ *testing.T, c *Config, _ *fake) { c.Room = roomOf(99) }, "fail|room in /home/alice|(99 %"},
		{"the home is nearly full", func(_ *testing.T, c *Config, _ *fake) { c.Room = roomOf(85) }, "warn|room in /home/alice|(85 %"},
		{"the home has room", func(_ *testing.T, c *Config, _ *fake) { c.Room = roomOf(5) }, ""},
		{"a repository is dead", func(t *testing.T, c *Config, _ *fake) {
			c.CVMFS, c.Plan.CVMFS = t.TempDir(), []string{"dead.test"}
			c.Probe = []string{os.Args[0], "probe"}
		}, "fail|CVMFS dead.test|no such file"},
		{"a repository is known to be silent", func(t *testing.T, c *Config, _ *fake) {
			c.CVMFS, c.Plan.CVMFS, c.Plan.Silent = t.TempDir(), []string{"dead.test"}, []string{"dead.test"}
		}, "fail|CVMFS dead.test|not tried in here"},
		{"a repository answers", func(t *testing.T, c *Config, _ *fake) {
			c.CVMFS, c.Plan.CVMFS = t.TempDir(), []string{"good.test"}
			c.Probe = []string{os.Args[0], "probe"}
			if err := os.Mkdir(filepath.Join(c.CVMFS, "good.test"), 0o755); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(c.CVMFS, "good.test"), "hello", "text")
		}, ""},
		{"a mount is gone", func(t *testing.T, c *Config, _ *fake) {
			c.Plan.Storage[0].Mounts = []hubapi.DataMount{{Path: filepath.Join(t.TempDir(), "eos")}}
			c.Probe = []string{os.Args[0], "probe"}
		}, "fail|directory |no such file"},
		{"the token lets none be removed", func(t *testing.T, c *Config, f *fake) {
			put(t, c.Credentials, "token-eos", jwt(t, map[string]any{"aud": "https://eos.test", "scope": "storage.read:/ storage.create:/", "exp": noon.Add(time.Hour).Unix()}))
			f.list = []rootclient.Entry{{Name: "f", Size: 5}}
			f.before = func(what string) {
				if what == "write" {
					t.Error("it writes")
				}
			}
		}, "warn|writing to storage eos|not tried"},
		{"the rest of an earlier look stays", func(t *testing.T, _ *Config, f *fake) {
			f.list = []rootclient.Entry{{Name: "f", Size: 5}, {Name: ".slipway-probe-1-RAND-alice", Size: 5}}
			f.err = map[string]error{"remove": refused(rootclient.NotAuthorized, "permission denied")}
			f.before = func(what string) {
				if what == "write" {
					t.Error("it writes")
				}
			}
		}, "fail|writing to storage eos|/eos/alice/.slipway-probe-1-RAND-alice could not be removed"},
		{"the directory is very long", func(_ *testing.T, _ *Config, f *fake) {
			f.list = []rootclient.Entry{{Name: "f", Size: 5}}
			f.err = map[string]error{"list": rootclient.ErrMore}
		}, ""},
		{"all is on tape", func(_ *testing.T, c *Config, f *fake) {
			c.Plan.Storage[0].Write = false
			f.list = []rootclient.Entry{{Name: "f", Size: 5, Offline: true}}
		}, "warn|reading storage eos|on tape"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fake{}
			cfg := usual(t, f)
			c.spoil(t, &cfg, f)
			var amiss []string
			for _, found := range Run(t.Context(), cfg).Checks {
				if found.Result != hubapi.CheckOK {
					amiss = append(amiss, found.Result+"|"+found.Check+"|"+found.Finding)
				}
				if strings.Contains(found.Finding+found.Remedy, "c2VjcmV0") {
					t.Errorf("a token shows: %+v", found)
				}
			}
			if want := strings.SplitN(c.want, "|", 3); c.want == "" && len(amiss) > 0 ||
				c.want != "" && (len(amiss) != 1 || !strings.HasPrefix(amiss[0], want[0]+"|"+want[1]) || !strings.Contains(amiss[0], want[2])) {
				t.Errorf("want %q, have %q", c.want, amiss)
			}
			if left := len(f.there); left > 0 && c.name != "the probe file stays" {
				t.Errorf("left there: %v", f.there)
			}
		})
	}
}

// TestWhatHangsIsAFinding: a look ends in time, whatever hangs, and what it has written is removed, or named.
func TestWhatHangsIsAFinding(t *testing.T) {
	for _, what := range []string{"list", "write", "read", "write remove", "remove"} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{hangs: map[string]bool{}}
				for w := range strings.FieldsSeq(what) {
					f.hangs[w] = true
				}
				began := time.Now()
				report := Run(t.Context(), usual(t, f))
				said, left := fmt.Sprint(report.Checks), strings.Contains(what, "remove")
				if report.Worst() != hubapi.CheckFail || time.Since(began) > defaultDeadline || left != (len(f.there) > 0) {
					t.Errorf("after %s: %s, left: %v", time.Since(began), said, f.there)
				}
				for file := range f.there {
					if !strings.Contains(said, file+" could not be removed") {
						t.Errorf("%s is not named: %s", file, said)
					}
				}
			})
		})
	}
}

// TestLeftFilesGo: what an earlier look of the user's has left is removed, and nothing else is.
func TestLeftFilesGo(t *testing.T) {
	f := &fake{}
	cfg := usual(t, f)
	at := func(ago time.Duration, user string) string {
		return fmt.Sprintf(".slipway-probe-%d-RAND-%s", noon.Add(-ago).Unix(), user)
	}
	stay := []string{at(time.Minute, "alice"), at(time.Hour, "bob"), at(time.Hour, "not-alice"), ".slipway-probe-", "file"}
	for _, name := range append(stay, at(time.Hour, "alice"), at(10*time.Minute, "alice")) {
		f.list = append(f.list, rootclient.Entry{Name: name, Size: 5})
		f.there["/eos/alice/"+name] = true
	}
	Run(t.Context(), cfg)
	for _, name := range stay {
		if !f.there["/eos/alice/"+name] {
			t.Errorf("%s is gone", name)
		}
	}
	if len(f.there) != len(stay) || len(f.wrote) != 1 {
		t.Errorf("left %v, wrote %v", f.there, f.wrote)
	}
}

// TestInterrupted: the probe file is removed also when its user has had enough.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{before: func(what string) {
		if what == "read" {
			cancel()
		}
	}}
	Run(ctx, usual(t, f))
	if len(f.wrote) != 1 || len(f.there) != 0 {
		t.Errorf("wrote %v, left %v", f.wrote, f.there)
	}
}
