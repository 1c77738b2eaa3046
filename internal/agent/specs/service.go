package specs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	base     = "http://slipway/kernels"
	askTime  = 30 * time.Second
	longest  = 8 << 20 // bytes of the list
	mostLogo = 1 << 20
	mostKept = 100 // logos that are kept in memory
)

// spec is a kernelspec of the service's.
type spec struct {
	Name, DisplayName, Language string
	Metadata                    json.RawMessage
	Logos                       map[string][]byte // by the name of the file
}

// service is the gateway to kernels, as a session has it.
type service struct {
	http  *http.Client
	logos map[string][]byte // by path
}

var (
	specName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,99}$`)
	logoFile = regexp.MustCompile(`^logo-[a-z0-9]{1,20}\.(png|svg)$`)
)

// list asks which kernels there are. A service without kernels has none.
func (s *service) list(ctx context.Context) ([]spec, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	text, status, err := s.get(ctx, "/api/kernelspecs", longest)
	if err != nil || status == http.StatusNotFound {
		return nil, err
	}
	var v struct {
		Specs map[string]struct {
			Spec struct {
				DisplayName string          `json:"display_name"`
				Language    string          `json:"language"`
				Metadata    json.RawMessage `json:"metadata"`
			} `json:"spec"`
			Resources map[string]string `json:"resources"`
		} `json:"kernelspecs"`
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return nil, fmt.Errorf("the service's list of kernels: %w", err)
	}
	var list []spec
	for name, k := range v.Specs {
		if !specName.MatchString(name) {
			continue
		}
		one := spec{Name: name, DisplayName: k.Spec.DisplayName, Language: k.Spec.Language, Metadata: k.Spec.Metadata, Logos: map[string][]byte{}}
		if len(one.Metadata) == 0 {
			one.Metadata = json.RawMessage("{}")
		}
		for _, path := range k.Resources {
			if file := path[strings.LastIndex(path, "/")+1:]; logoFile.MatchString(file) {
				if logo := s.logo(ctx, path); len(logo) > 0 {
					one.Logos[file] = logo
				}
			}
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b spec) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// logo gives a picture; none where it is not to be had: a kernel is shown without one.
func (s *service) logo(ctx context.Context, path string) []byte {
	if at := strings.Index(path, "/kernelspecs/"); at >= 0 {
		path = path[at:]
	}
	if logo, known := s.logos[path]; known {
		return logo
	}
	logo, status, err := s.get(ctx, path, mostLogo)
	if err != nil || status != http.StatusOK {
		return nil
	}
	if len(s.logos) < mostKept {
		s.logos[path] = logo
	}
	return logo
}

// get gives a success's body, and that there is no such thing without one.
func (s *service) get(ctx context.Context, path string, most int64) ([]byte, int, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return nil, 0, err
	}
	res, err := s.http.Do(q)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusNotFound {
		return nil, res.StatusCode, nil
	}
	if res.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("%s: status %d", path, res.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s: more than %d bytes", path, most)
	}
	return text, res.StatusCode, err
}
