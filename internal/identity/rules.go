package identity

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"slipway/internal/errs"
)

// Rule says by what something is called who is meant.
type Rule struct {
	Of    string // an issuer's or a realm's name; of rules for certificates empty
	Claim string // of rules for issuers: what of its tokens names her
	Match string // a regular expression from ^ to $
	Gives string // with $1 or ${1} for what its parts have matched
}

// rule is one that is fit to be asked.
type rule struct {
	Rule
	n  int // its number, from 1
	re *regexp.Regexp
}

// template finds what stands for a part of a match.
var template = regexp.MustCompile(`\$(\{[^}]*\}|[0-9A-Za-z_]+|.?)`)

// Check refuses a rule that would fit something else than is meant; field and the remedy name what is wrong.
func (r Rule) Check() (field string, value any, remedy string) {
	re, err := regexp.Compile(r.Match)
	switch {
	case err != nil:
		return "match", r.Match, "a regular expression of Go's: " +
			strings.TrimPrefix(err.Error(), "error parsing regexp: ")
	case !strings.HasPrefix(r.Match, "^") || !strings.HasSuffix(r.Match, "$") || strings.HasSuffix(r.Match, `\$`):
		return "match", r.Match, "an expression that begins with ^ and ends with $: it must fit the whole, or others could call themselves so that it fits them"
	case r.Gives == "":
		return "", r.Gives, "who is meant, such as $1 or alice"
	}
	for _, m := range template.FindAllStringSubmatch(r.Gives, -1) {
		name := strings.Trim(m[1], "{}")
		n, err := strconv.Atoi(name)
		if known := err == nil && n <= re.NumSubexp() || err != nil && name != "" && slices.Contains(re.SubexpNames(), name); !known {
			return "", r.Gives, fmt.Sprintf(
				"%s stands for no part of match, which has %d in parentheses; write ${1}x where letters follow", m[0],
				re.NumSubexp(),
			)
		}
	}
	return "", nil, ""
}

func compile(list []Rule) ([]rule, error) {
	var out []rule
	for i, r := range list {
		if field, value, remedy := r.Check(); remedy != "" {
			return nil, errs.Bad(fmt.Sprintf("rule %d: %s", i+1, field), value, remedy)
		}
		// Of ^a|b$ each half would fit but one end.
		out = append(out, rule{r, i + 1, regexp.MustCompile(`\A(?:` + r.Match + `)\z`)})
	}
	return out, nil
}

// ask returns who is meant by the first rule that fits; false: by none.
func (r rule) ask(text string) (who string, fits bool) {
	m := r.re.FindStringSubmatchIndex(text)
	if m == nil {
		return "", false
	}
	return string(r.re.ExpandString(nil, r.Gives, text, m)), true
}

// RulesConfig is what Rules are made of.
type RulesConfig struct {
	Subjects     []Rule // of tokens: which user each is
	Certificates []Rule // the same for holders of certificates, by their names (DN)
	Accounts     []Rule // which account a user has on this host, or in the table
	Gridmap      string // file, asked before Certificates; empty: none
}

// Rules say who is who. They are safe for concurrent use.
type Rules struct {
	subjects, certificates, accounts []rule
	gridmap                          *gridmap
}

// NewRules makes Rules.
func NewRules(cfg RulesConfig) (*Rules, error) {
	r := &Rules{}
	var err error
	for field, set := range map[string]struct {
		from []Rule
		to   *[]rule
	}{
		"identities.subjects":     {cfg.Subjects, &r.subjects},
		"identities.certificates": {cfg.Certificates, &r.certificates},
		"identities.accounts":     {cfg.Accounts, &r.accounts},
	} {
		if *set.to, err = compile(set.from); err != nil {
			return nil, fmt.Errorf("%s: %w", field, err)
		}
	}
	if cfg.Gridmap != "" {
		r.gridmap, err = newGridmap(cfg.Gridmap)
	}
	return r, err
}

// Claims names what of an issuer's tokens the rules ask for.
func (r *Rules) Claims(issuer string) []string {
	var claims []string
	for _, each := range r.subjects {
		if each.Of == issuer && !slices.Contains(claims, each.Claim) {
			claims = append(claims, each.Claim)
		}
	}
	return claims
}

// Subject says by which rule a token of an issuer's is a user's, in words; empty where nothing is said of the issuer.
// An error refuses it.
func (r *Rules) Subject(principal, issuer string, claims map[string]string) (by string, err error) {
	var asked []string
	for _, each := range r.subjects {
		if each.Of != issuer {
			continue
		}
		value := claims[each.Claim]
		asked = append(asked, fmt.Sprintf("%s %.80q", each.Claim, value))
		if who, fits := each.ask(value); fits && value != "" {
			return decided(
				principal, who, fmt.Sprintf("%s %.80q at %s", each.Claim, value, issuer),
				fmt.Sprintf("identities.subjects, rule %d", each.n),
			)
		}
	}
	if asked == nil {
		return "", nil
	}
	return "", nobody(
		principal, "the one with "+strings.Join(slices.Compact(asked), ", ")+" at "+issuer, "identities.subjects",
	)
}

// mostName is from where on names of certificates are cut when they are read: what is cut may be anybody.
const mostName = 512

// Certificate says by which rule the holder of a certificate is a user, likewise.
func (r *Rules) Certificate(principal, dn string) (by string, err error) {
	if r.gridmap == nil && len(r.certificates) == 0 {
		return "", nil
	}
	what := fmt.Sprintf("%.200q", dn)
	if len(dn) >= mostName {
		return "", nobody(principal, what, "identities")
	}
	if r.gridmap != nil {
		users, err := r.gridmap.users(dn)
		if err != nil {
			return "", err
		}
		if slices.Contains(users, principal) {
			return "identities.gridmap", nil
		}
		if len(users) > 0 {
			return decided(principal, strings.Join(users, ", "), what, "identities.gridmap")
		}
	}
	for _, each := range r.certificates {
		if who, fits := each.ask(dn); fits {
			return decided(principal, who, what, fmt.Sprintf("identities.certificates, rule %d", each.n))
		}
	}
	return "", nobody(principal, what, "identities.certificates")
}

// AccountName says which account a user has. Without rules for her realm it has her own name, with the realm where that
// is not the site's.
func (r *Rules) AccountName(realm, user string) (string, error) {
	any := false
	for _, each := range r.accounts {
		if each.Of != realm {
			continue
		}
		any = true
		if name, fits := each.ask(user); fits {
			if err := check(name); err != nil {
				return "", errs.New(
					errs.Missing, "account: identities.accounts, rule %d, gives %.80q for %.80q", each.n, name, user,
				).With("the administrator corrects the rule")
			}
			return name, nil
		}
	}
	if any {
		return "", errs.New(
			errs.Missing, "account: no rule under identities.accounts says which account %.80q of realm %s has", user,
			realm,
		).With(`the administrator adds one that fits, such as {realm: ` + realm + `, match: '^([a-z0-9]+)$', account: '$1'}`)
	}
	return Principal(realm, user), nil
}

func decided(principal, who, what, by string) (string, error) {
	if who == principal {
		return by, nil
	}
	return "", errs.New(errs.Forbidden, "%s is the user %.80q (%s), and you are %.80q", what, who, by, principal).
		With("log in there as yourself; if it is you, tell your administrator, who corrects the rule")
}

func nobody(principal, what, where string) error {
	return errs.New(
		errs.Forbidden, "%s is nobody here by the site's rules (%s), and you are %.80q", what, where, principal,
	).With("log in there as yourself; if it is you, tell your administrator, who adds a rule")
}
