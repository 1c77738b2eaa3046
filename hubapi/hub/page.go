package hub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"strconv"
	"time"

	"slipway/internal/errs"
)

const (
	pageSize  = 200 // the Hub's own limit, where none is configured
	pageLimit = 32 << 20
	listLimit = 200_000
	wholeSize = 128 << 20 // bytes of all pages: who runs a Hub must not be able to fill the service's memory
	listTries = 3
	listTime  = 30 * time.Second // for one page

	paginated = "application/jupyterhub-pagination+json"
)

// page is a part of a list.
type page[T any] struct {
	items []T
	size  int  // in bytes
	next  int  // the offset of the next page; zero: this is the last
	bare  bool // the Hub said nothing of pages: whether there is more can only be tried
}

// errMoved says that the list changed between two of its pages.
var errMoved = errors.New("the list changed while it was read")

// list reads a whole list; key tells items apart. The Hub counts positions, so one that leaves the list between two
// pages would hide another. Therefore each page begins with the last item of the one before: where it does not, all is
// read again.
func list[T any](ctx context.Context, c *Client, k call, key func(T) string) ([]T, error) {
	for range listTries {
		all, err := walk(ctx, c, k, key)
		if !errors.Is(err, errMoved) {
			return all, err
		}
	}
	return nil, errs.New(errs.Unavailable, "%s: %w", k.what, errMoved)
}

func walk[T any](ctx context.Context, c *Client, k call, key func(T) string) ([]T, error) {
	var all []T
	for offset, size := 0, 0; ; {
		p, err := fetch[T](ctx, c, k, offset)
		if err != nil {
			return nil, err
		}
		if size += p.size; size > c.whole {
			return nil, errs.New(errs.Unavailable, "%s: the Hub's list is larger than %d MiB", k.what, c.whole>>20)
		}
		fresh := p.items
		if len(all) > 0 {
			switch {
			case len(fresh) == 0:
				return nil, errMoved
			case p.bare && offset > 0 && key(fresh[0]) == key(all[0]):
				return all, nil // it does not know of offsets: the first answer was the list
			case key(fresh[0]) != key(all[len(all)-1]):
				return nil, errMoved
			}
			fresh = fresh[1:]
		}
		all = append(all, fresh...)
		switch {
		case p.next == 0 || p.bare && len(p.items) <= 1:
			return all, nil
		case p.next-1 <= offset:
			return nil, errs.New(errs.Unavailable, "%s: the Hub's pages do not go on behind number %d", k.what, offset).
				With("c.JupyterHub.api_page_max_limit must be at least 2")
		case len(all) > listLimit:
			return nil, errs.New(errs.Unavailable, "%s: the Hub lists more than %d", k.what, listLimit)
		}
		offset = p.next - 1
	}
}

// fetch asks for one page. Of what the Hub says about the next one the position is taken, never the address.
func fetch[T any](ctx context.Context, c *Client, k call, offset int) (page[T], error) {
	k.query = maps.Clone(k.query)
	if k.query == nil {
		k.query = url.Values{}
	}
	k.query.Set("offset", strconv.Itoa(offset))
	k.query.Set("limit", strconv.Itoa(pageSize))
	k.accept, k.limit, k.time = paginated, pageLimit, listTime
	var raw json.RawMessage
	if _, err := c.ask(ctx, k, &raw); err != nil {
		return page[T]{}, err
	}
	p, err := parsePage[T](raw, offset)
	p.size = len(raw)
	if err != nil {
		return page[T]{}, errs.New(errs.Unavailable, "%s: the Hub's list cannot be read: %w", k.what, err)
	}
	return p, nil
}

// parsePage reads a list in either of its forms.
func parsePage[T any](b []byte, offset int) (page[T], error) {
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("[")) {
		var items []T
		err := json.Unmarshal(b, &items)
		return page[T]{items: items, next: offset + len(items), bare: true}, err
	}
	var p struct {
		Items      *[]T `json:"items"`
		Pagination struct {
			Next *struct {
				Offset int `json:"offset"`
			} `json:"next"`
		} `json:"_pagination"`
	}
	if err := json.Unmarshal(b, &p); err != nil {
		return page[T]{}, err
	}
	if p.Items == nil || *p.Items == nil {
		return page[T]{}, errors.New("it has no items")
	}
	if p.Pagination.Next == nil {
		return page[T]{items: *p.Items}, nil
	}
	if p.Pagination.Next.Offset <= offset {
		return page[T]{}, errors.New("its next page is no later one")
	}
	return page[T]{items: *p.Items, next: p.Pagination.Next.Offset}, nil
}
