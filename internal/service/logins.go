package service

import (
	"context"
	"strings"

	"slipway/internal/accesstokens"
	"slipway/internal/config"
	"slipway/internal/devicelogin"
)

// makeTokens opens what keeps the access tokens of users' programs.
func (s *service) makeTokens(ctx context.Context) (err error) {
	s.tokens, err = accesstokens.New(ctx, accesstokens.Config{Store: s.store, Known: s.knownAt, Logger: s.log})
	return err
}

// loginPages are where users of the hubs confirm logins. Where a hub's address for browsers is not known, the page's
// has its path alone: users know where their Hub is.
func loginPages(cfg config.Config) (pages []devicelogin.Page) {
	for _, h := range cfg.Hubs {
		at := h.URL
		if at == "" && cfg.SSH.Host != "" {
			at = "https://" + cfg.SSH.Host
		}
		if prefix := h.PagesPrefix(); prefix != "" {
			pages = append(pages, devicelogin.Page{Hub: h.Name, URL: strings.TrimRight(at, "/") + prefix + "login"})
		}
	}
	return pages
}
