package environments

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/images"
	"slipway/images/blob"
	"slipway/images/manifest"
	"slipway/images/oci"
	"slipway/images/progress"
	"slipway/images/records"
	"slipway/images/transfer"
	"slipway/internal/errs"
	"slipway/internal/secret"
	"slipway/spawner"
)

// Shipper moves environments to and from other registries, for callers who may use them. A pull that breaks off goes on
// where it was when the same owner asks for the same again; an owner has one pull at a time, and one that is
// unfinished.
type Shipper struct {
	environments *Service
	library      *images.Library
	dir          string                 // of what is being received: <owner>/<reference>/, both as digests
	transport    http.RoundTripper      // to registries that callers name
	plain        func(host string) bool // registries without TLS; nil: none
	log          *slog.Logger
	turns        turns
}

// stalePull is how long an unfinished pull is kept for its owner to ask again.
const stalePull = 24 * time.Hour

// NewShipper makes a shipper and clears old unfinished pulls away.
func (f *Service) NewShipper() (*Shipper, error) {
	p := &Shipper{
		environments: f, library: f.library, dir: f.path("pulls"), transport: newOutward(), log: f.log,
	}
	if err := os.MkdirAll(p.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the directory of pulls: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(p.dir, "*", "*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range left {
		st, err := os.Stat(dir)
		if err == nil && time.Since(st.ModTime()) > stalePull {
			err = os.RemoveAll(dir)
		}
		if err != nil {
			return nil, fmt.Errorf("clear unfinished pulls away: %w", err)
		}
	}
	return p, nil
}

// client speaks to registries with the login that the caller gave, which goes to the registry that she named and to no
// other.
func (s *Shipper) client(host string, login hubapi.RegistryLogin) *transfer.Client {
	return transfer.New(transfer.Config{Transport: s.transport, Plain: s.plain, Logger: s.log, Credential: transfer.Static(host, transfer.Credential{
		Username: login.Username, Password: secret.New(login.Password), Identity: secret.New(login.Identity),
		Token: secret.New(login.Token),
	})})
}

// Push sends an environment that the caller may use.
func (s *Shipper) Push(
	ctx context.Context, c spawner.Caller, ref string, r hubapi.PushRequest, tell func(hubapi.Progress),
) (hubapi.Pushed, error) {
	found, err := s.environments.entries(c, ref)
	if err != nil {
		return hubapi.Pushed{}, err
	}
	to, err := transfer.ParseReference("to", r.To)
	if err != nil {
		return hubapi.Pushed{}, err
	}
	var out hubapi.Pushed
	for i, e := range found { // an entry for each architecture, one after the other: each keeps those that are there
		defer s.library.Hold(e.Digest)()
		tell(hubapi.Progress{Stage: "checking", Percent: -1, Message: "comparing the environment with its digest"})
		cargo, err := s.cargo(ctx, e.Digest, r.SIF)
		if err != nil {
			return hubapi.Pushed{}, err
		}
		done, err := s.client(to.Host, r.Login).Push(
			ctx, to, cargo, moving("pushing", "sending what "+to.Host+" lacks", tell),
		)
		if err != nil {
			return hubapi.Pushed{}, err
		}
		if i == 0 {
			out.Environment = done.Environment
		}
		out.Index, out.Sent = done.Index, out.Sent+done.Sent
	}
	return out, nil
}

// cargo is what a push may have to send.
func (s *Shipper) cargo(ctx context.Context, digest string, whole bool) (transfer.Environment, error) {
	if _, err := s.library.Ready(ctx, digest); err != nil {
		return transfer.Environment{}, err
	}
	p, err := s.library.Parts(digest)
	if err != nil {
		return transfer.Environment{}, err
	}
	out := transfer.Environment{
		Document: p.Encoded,
		Blob:     func(ctx context.Context, d oci.Descriptor) (blob.Blob, error) { return p.Blob(ctx, d.Digest.String()) },
	}
	if out.Architecture, err = p.Architecture(); err != nil {
		return transfer.Environment{}, err
	}
	statements, err := p.Statements()
	if err != nil {
		return transfer.Environment{}, err
	}
	if len(statements) > 0 {
		out.Provenance = statements[0]
	}
	if !whole {
		return out, nil
	}
	if _, err := s.library.About(ctx, digest); err != nil { // signs it, where that was not done yet
		return transfer.Environment{}, err
	}
	named, err := p.SIF()
	out.SIF = &transfer.File{Digest: named.Digest, Size: named.Size, Open: p.OpenSIF}
	return out, err
}

// moving tells how far a client has come.
func moving(stage, message string, tell func(hubapi.Progress)) func(transfer.Progress) {
	return func(p transfer.Progress) {
		out := hubapi.Progress{Stage: stage, Percent: -1, Bytes: p.Moved, Message: message}
		if p.Total > 0 {
			out.Percent = min(100, 100*float64(p.Done)/float64(p.Total))
		}
		tell(out)
	}
}

// Pull receives an environment as one of the caller's.
func (s *Shipper) Pull(
	ctx context.Context, c spawner.Caller, r hubapi.PullRequest, tell func(hubapi.Progress),
) (hubapi.Environment, error) {
	v, err := s.environments.callersViewer(c)
	if err != nil {
		return hubapi.Environment{}, err
	}
	from, err := transfer.ParseReference("from", r.From)
	if err != nil {
		return hubapi.Environment{}, err
	}
	tell(hubapi.Progress{Stage: "pulling", Percent: -1, Message: "asking " + from.Host})
	done, err := s.turns.wait(ctx, v.Owner)
	if err != nil {
		return hubapi.Environment{}, err
	}
	defer done()
	dir, err := s.place(v.Owner, from.String())
	if err != nil {
		return hubapi.Environment{}, err
	}
	a := images.Adoption{
		Owner: v.Owner, Name: r.Name, Tag: r.Tag, Note: r.Note, From: from.String(), Unsigned: r.Unsigned,
		Progress: func(p progress.Progress) { tell(adoptProgress(p)) },
	}
	e, err := s.receiveAll(ctx, s.client(from.Host, r.Login), from, dir, r.Architecture, a, tell)
	if err != nil && (ctx.Err() != nil || errs.Is(err, errs.Unavailable)) {
		return hubapi.Environment{}, err // what has come so far waits for the next try
	}
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		return hubapi.Environment{}, err
	}
	return s.environments.wire(e, v.Owner), nil
}

// receiveAll receives what a tag has for the architectures that are wanted, and gives the first.
func (s *Shipper) receiveAll(
	ctx context.Context, client *transfer.Client, from transfer.Reference, dir, want string, a images.Adoption,
	tell func(hubapi.Progress),
) (first records.Environment, err error) {
	there, err := client.Architectures(ctx, from)
	if err != nil {
		return records.Environment{}, err
	}
	list, err := chosen(want, there)
	if err != nil {
		return records.Environment{}, err
	}
	for i, architecture := range list {
		e, err := s.receive(ctx, client, from, dir, architecture, a, tell)
		if err != nil {
			return records.Environment{}, err
		}
		if i == 0 {
			first = e
		}
	}
	return first, nil
}

// everyArchitecture asks for what a tag has for each architecture.
const everyArchitecture = "all"

// chosen says which of a tag's architectures are received. The empty one is what a reference to a single environment
// has.
func chosen(want string, there []string) ([]string, error) {
	own := slices.Contains(there, runtime.GOARCH)
	switch {
	case len(there) == 0 && want != "" && want != everyArchitecture:
		return nil, errs.Bad(
			"architecture", want, "leave it out: the reference names one environment, for whatever machines that is",
		)
	case len(there) == 0:
		return []string{""}, nil
	case want == everyArchitecture && own: // this host's first
		return append(
			[]string{runtime.GOARCH},
			slices.DeleteFunc(slices.Clone(there), func(a string) bool { return a == runtime.GOARCH })...,
		), nil
	case want == everyArchitecture || want == "" && len(there) == 1:
		return there, nil
	case want == "" && own:
		return []string{runtime.GOARCH}, nil
	case !slices.Contains(there, want):
		return nil, errs.Bad("architecture", want, "one of "+strings.Join(there, ", ")+", or "+everyArchitecture)
	}
	return []string{want}, nil
}

func (s *Shipper) receive(
	ctx context.Context, client *transfer.Client, from transfer.Reference, dir, architecture string, a images.Adoption,
	tell func(hubapi.Progress),
) (records.Environment, error) {
	into := transfer.Into{
		Dir: dir, Architecture: architecture,
		Have: func(d oci.Descriptor) bool {
			return d.MediaType == manifest.TypeBase && s.library.HasBase(
				ctx, manifest.Part{Digest: d.Digest.String(), Size: d.Size},
			)
		},
		Admit: func(document []byte, provenance [][]byte) error {
			a.Document, a.Statements = document, provenance
			_, err := s.library.Admits(ctx, a)
			return err
		},
	}
	got, err := client.Pull(ctx, from, into, moving("pulling", "receiving what is not here", tell))
	if err != nil {
		return records.Environment{}, err
	}
	a.Open = func(digest string) (blob.Blob, error) {
		path, ok := got.Files[digest]
		if !ok {
			return nil, errs.New(
				errs.Unavailable, "the part %.80q went away while the environment was received", digest,
			).With("pull it again")
		}
		return blob.Open(path)
	}
	return s.library.Adopt(ctx, a)
}

func adoptProgress(p progress.Progress) hubapi.Progress {
	message := "putting the environment together"
	if p.Stage == progress.Checking {
		message = "comparing what came with its digests"
	}
	return hubapi.Progress{Stage: string(p.Stage), Percent: -1, Bytes: p.Bytes, Message: message}
}

// place returns the directory of a pull. What another unfinished one of the same owner has left goes.
func (s *Shipper) place(owner, from string) (string, error) {
	mine := filepath.Join(s.dir, fileName(owner))
	dir := filepath.Join(mine, fileName(from))
	others, err := filepath.Glob(filepath.Join(mine, "*"))
	if err != nil {
		return "", err
	}
	for _, other := range others {
		if other != dir {
			err = errors.Join(err, os.RemoveAll(other))
		}
	}
	return dir, errors.Join(err, os.MkdirAll(dir, 0o700))
}

// fileName makes a file name of any text, different ones of different texts.
func fileName(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
