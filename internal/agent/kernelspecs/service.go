package kernelspecs

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"slipway/hubapi"
	"slipway/internal/errs"
)

const (
	askTime  = 30 * time.Second
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
	api   *hubapi.Client
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
	found, err := s.api.LauncherSpecs(ctx)
	if errs.Is(err, errs.NotFound) {
		return nil, nil
	}
	var list []spec
	for _, k := range found {
		if !specName.MatchString(k.Name) {
			continue
		}
		one := spec{
			Name: k.Name, DisplayName: k.DisplayName, Language: k.Language, Metadata: k.Metadata,
			Logos: map[string][]byte{},
		}
		if len(one.Metadata) == 0 {
			one.Metadata = json.RawMessage("{}")
		}
		for _, path := range k.Logos {
			if file := path[strings.LastIndex(path, "/")+1:]; logoFile.MatchString(file) {
				if logo := s.logo(ctx, path); len(logo) > 0 {
					one.Logos[file] = logo
				}
			}
		}
		list = append(list, one)
	}
	return list, err
}

// logo returns a picture; none where it is not to be had: a kernel is shown without one.
func (s *service) logo(ctx context.Context, path string) []byte {
	if logo, known := s.logos[path]; known {
		return logo
	}
	logo, err := s.api.LauncherLogo(ctx, path)
	if err != nil || len(logo) > mostLogo {
		return nil
	}
	if len(s.logos) < mostKept {
		s.logos[path] = logo
	}
	return logo
}
