package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"slipway/images/blob"
	"slipway/images/oci"
	"slipway/internal/errs"
)

// cargo is a blob that may have to be sent.
type cargo struct {
	oci.Descriptor
	open func(context.Context) (blob.Blob, error)
}

// upload sends one blob. It goes in chunks where the registry takes them, so that one that was refused is all that is
// sent again. After a chunk that broke half-way the registry is asked how far it came. One that does not tell gets the
// blob anew: the reference implementation does not, nor what is built on it.
type upload struct {
	*place
	cargo
	from     string // repository of this registry that may have the blob; "": none
	content  blob.Blob
	location string // of the registry's session; "": there is none
	at       int64  // bytes that the registry has
	chunk    int64  // 0: the registry takes no chunks
	unsure   bool   // something failed: at may be wrong, and the blob may be complete
	done     bool
}

// send sends a blob.
func (p *place) send(ctx context.Context, c cargo, from string) error {
	content, err := c.open(ctx)
	if err != nil {
		return fmt.Errorf("open %s: %w", c.Digest, err)
	}
	defer content.Close()
	if content.Size() != c.Size {
		return errs.New(errs.Internal, "%s has %d bytes here, and %d by its document", c.Digest, content.Size(), c.Size)
	}
	u := &upload{place: p, cargo: c, from: from, content: content, chunk: p.cfg.Chunk}
	var tries patience
	for !u.done {
		err := u.step(ctx)
		p.meter.at(c.Descriptor, u.at)
		if err == nil {
			continue
		}
		u.unsure = true
		if err := p.again(ctx, &tries, err, u.at); err != nil {
			return err
		}
	}
	p.meter.done(c.Descriptor)
	return nil
}

// step takes the upload one request further.
func (u *upload) step(ctx context.Context) error {
	switch {
	case u.unsure:
		return u.ask(ctx)
	case u.location == "":
		return u.begin(ctx)
	case u.at < u.Size && u.chunk > 0 && u.Size > u.chunk:
		return u.patch(ctx)
	default:
		return u.finish(ctx)
	}
}

// begin opens a session, or finds that the registry can take the blob from another repository of its own.
func (u *upload) begin(ctx context.Context) error {
	address := u.url("blobs", "uploads/")
	if u.from != "" {
		address += "?" + url.Values{"mount": {u.Digest.String()}, "from": {u.from}}.Encode()
	}
	resp, err := u.do(ctx, query{
		what: "begin to send " + u.Digest.String(), method: http.MethodPost, url: address,
		want: []int{http.StatusAccepted, http.StatusCreated},
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusCreated {
		u.done = true
		return nil
	}
	if least, err := strconv.ParseInt(resp.Header.Get("Oci-Chunk-Min-Length"), 10, 64); err == nil && u.chunk > 0 {
		u.chunk = max(u.chunk, least)
	}
	u.at = 0
	return u.moved(resp)
}

// moved takes the address at which the session goes on. It must be the registry's own: the credential goes there.
func (u *upload) moved(resp *http.Response) error {
	where, err := resp.Location()
	if err != nil {
		return errs.New(errs.Invalid, "%s does not say where to send %s", resp.Request.URL.Host, u.Digest)
	}
	from := resp.Request.URL
	if where.Scheme != from.Scheme || where.Hostname() != from.Hostname() || port(where) != port(from) {
		return errs.New(errs.Invalid, "%s wants %s sent to %.100q, another server", from.Host, u.Digest, where.Host)
	}
	u.location = where.String()
	return nil
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return u.Scheme
}

func (u *upload) part(from, to int64) func() io.Reader {
	return func() io.Reader { return counted{io.NewSectionReader(u.content, from, to-from), u.meter} }
}

// patch sends a chunk.
func (u *upload) patch(ctx context.Context) error {
	end := min(u.at+u.chunk, u.Size)
	resp, err := u.do(ctx, query{
		what: fmt.Sprintf("send %s from byte %d on", u.Digest, u.at), method: http.MethodPatch, url: u.location,
		want: []int{http.StatusAccepted},
		header: map[string]string{
			"Content-Type": "application/octet-stream", "Content-Range": fmt.Sprintf("%d-%d", u.at, end-1),
		},
		body: u.part(u.at, end), size: end - u.at,
	})
	if err != nil {
		return u.otherwise(err)
	}
	defer resp.Body.Close()
	u.at = end
	return u.moved(resp)
}

// otherwise finds the way that is left when a registry refuses a chunk: the session anew when it is lost, the blob in
// one piece when the registry knows no chunks.
func (u *upload) otherwise(err error) error {
	f, ok := errors.AsType[*failure](err)
	if !ok {
		return err
	}
	switch f.status {
	case http.StatusNotFound, http.StatusRequestedRangeNotSatisfiable:
		f.status = 0 // another attempt, which asks first
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotImplemented, http.StatusUnsupportedMediaType:
		if u.at == 0 {
			u.chunk, u.location = 0, ""
			return nil
		}
	}
	return err
}

// finish closes the session: with nothing more to send after chunks, else with the whole blob.
func (u *upload) finish(ctx context.Context) error {
	where, err := url.Parse(u.location)
	if err != nil {
		return err
	}
	values := where.Query()
	values.Set("digest", u.Digest.String())
	where.RawQuery = values.Encode()
	q := query{
		what: "send " + u.Digest.String(), method: http.MethodPut, url: where.String(), want: []int{http.StatusCreated},
		header: map[string]string{"Content-Type": "application/octet-stream"},
	}
	if u.at < u.Size {
		q.body, q.size = u.part(u.at, u.Size), u.Size-u.at
	}
	resp, err := u.do(ctx, q)
	if err != nil {
		if f, ok := errors.AsType[*failure](err); ok && f.status == http.StatusNotFound {
			f.status = 0
		}
		return err
	}
	u.at, u.done = u.Size, true
	return resp.Body.Close()
}

// ask finds out what the registry has of the blob.
func (u *upload) ask(ctx context.Context) error {
	found, err := u.has(ctx, u.Descriptor)
	if err != nil {
		return err
	}
	if u.unsure = false; found {
		u.at, u.done = u.Size, true
		return nil
	}
	location := u.location
	u.location = ""
	if u.chunk == 0 || u.Size <= u.chunk || location == "" {
		u.at = 0
		return nil
	}
	resp, err := u.do(ctx, query{
		what: "ask how much of " + u.Digest.String() + " has arrived", method: http.MethodGet, url: location,
		want: []int{http.StatusNoContent},
	})
	if err != nil {
		u.at = 0
		if f, ok := errors.AsType[*failure](err); ok && f.passing() {
			u.location = location // it is asked again
			return err
		}
		return nil // it cannot be asked, or the session is gone
	}
	defer resp.Body.Close()
	at, ok := arrived(resp.Header.Get("Range"))
	if !ok || at > u.Size {
		u.at = 0
		return nil
	}
	u.at, u.location = at, location
	if resp.Header.Get("Location") != "" {
		return u.moved(resp)
	}
	return nil
}

// arrived reads how many bytes a registry has. "0-0" is said of one byte and of none: then the blob is sent anew.
func arrived(text string) (n int64, ok bool) {
	first, last, _ := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
	end, err := strconv.ParseInt(last, 10, 64)
	return end + 1, err == nil && first == "0" && end > 0 && end < math.MaxInt64
}
