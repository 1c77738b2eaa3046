package config

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"slipway/internal/identity"
)

// Identities say who is who: in each list the first rule that fits counts.
type Identities struct {
	Subjects     []SubjectRule     `yaml:"subjects"`
	Certificates []CertificateRule `yaml:"certificates"`
	Gridmap      string            `yaml:"gridmap"`
	Accounts     []AccountRule     `yaml:"accounts"`
}

// SubjectRule says which user the subject of an issuer's tokens is.
type SubjectRule struct {
	Issuer string `yaml:"issuer"` // the name of one of credentials.issuers
	Claim  string `yaml:"claim"`  // of its tokens
	Match  string `yaml:"match"`  // a regular expression for all of the claim
	User   string `yaml:"user"`   // $1 stands for what the first parentheses match
}

// CertificateRule says the same of the holder of a certificate, by its name (DN).
type CertificateRule struct {
	Match string `yaml:"match"` // a regular expression for all of the name (DN)
	User  string `yaml:"user"`  // $1 stands for what the first parentheses match
}

// AccountRule says which account a user has.
type AccountRule struct {
	Realm   string `yaml:"realm"`   // whose users these are
	Match   string `yaml:"match"`   // a regular expression for all of the user's name
	Account string `yaml:"account"` // $1 stands for what the first parentheses match
}

func defaultIdentities() Identities {
	return Identities{Subjects: []SubjectRule{}, Certificates: []CertificateRule{}, Accounts: []AccountRule{}}
}

func (r *SubjectRule) setDefaults() {
	*r = SubjectRule{Claim: "sub"}
}

func (r *AccountRule) setDefaults() {
	*r = AccountRule{Realm: SiteRealm}
}

// Rules returns the rules as package identity has them.
func (i Identities) Rules() identity.RulesConfig {
	c := identity.RulesConfig{Gridmap: i.Gridmap}
	for _, r := range i.Subjects {
		c.Subjects = append(c.Subjects, identity.Rule{Of: r.Issuer, Claim: r.Claim, Match: r.Match, Gives: r.User})
	}
	for _, r := range i.Certificates {
		c.Certificates = append(c.Certificates, identity.Rule{Match: r.Match, Gives: r.User})
	}
	for _, r := range i.Accounts {
		c.Accounts = append(c.Accounts, identity.Rule{Of: r.Realm, Match: r.Match, Gives: r.Account})
	}
	return c
}

// checkIdentities looks at each rule, and reads the grid-mapfile.
func (c Config) checkIdentities(p *problems) {
	i, rules := c.Identities, c.Identities.Rules()
	checkRules(p, "identities.subjects", "user", rules.Subjects)
	checkRules(p, "identities.certificates", "user", rules.Certificates)
	checkRules(p, "identities.accounts", "account", rules.Accounts)
	for n, r := range i.Subjects {
		at := fmt.Sprintf("identities.subjects[%d].", n)
		if !slices.Contains(c.issuerNames(), r.Issuer) {
			p.add(at+"issuer", r.Issuer, "the name of one of credentials.issuers")
		}
		if r.Claim == "" || strings.ContainsFunc(r.Claim, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			p.add(at+"claim", r.Claim, "the name of what the issuer's tokens say, such as sub or preferred_username")
		}
	}
	realms := []string{}
	for _, h := range c.Hubs {
		realms = append(realms, cmp.Or(h.Realm, SiteRealm))
	}
	for n, r := range i.Accounts {
		if !slices.Contains(realms, r.Realm) {
			p.add(
				fmt.Sprintf("identities.accounts[%d].realm", n), r.Realm,
				"the realm of one of hubs: "+strings.Join(slices.Compact(realms), ", "),
			)
		}
	}
	if len(i.Accounts) > 0 && c.Users.Accounts != AccountsNSS && c.Users.Accounts != AccountsTable {
		p.add(
			"identities.accounts", fmt.Sprintf("%d rules", len(i.Accounts)),
			"none, or users.accounts: nss or table, which have accounts by name",
		)
	}
	if c.Credentials.X509.Trust == "" && (len(i.Certificates) > 0 || i.Gridmap != "") {
		p.add("identities.certificates", "", "none, or credentials.x509.trust: without it no proxy is taken")
	}
	c.checkGridmap(p)
}

func (c Config) checkGridmap(p *problems) {
	file := c.Identities.Gridmap
	if file == "" {
		return
	}
	if _, err := os.Stat(file); err != nil || !filepath.IsAbs(file) {
		p.file(
			"identities.gridmap", file, "the absolute path of a grid-mapfile, such as /etc/grid-security/grid-mapfile",
		)
	} else if _, err := identity.NewRules(identity.RulesConfig{Gridmap: file}); err != nil {
		*p = append(*p, err)
	}
}

func checkRules(p *problems, list, gives string, rules []identity.Rule) {
	for n, r := range rules {
		field, value, remedy := r.Check()
		if field == "" {
			field = gives
		}
		if remedy != "" {
			p.add(fmt.Sprintf("%s[%d].%s", list, n, field), value, remedy)
		}
	}
}
