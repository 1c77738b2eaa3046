package hubapi

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Environment is an immutable software environment, under one of its names.
type Environment struct {
	Digest    string    `json:"digest"`
	Owner     string    `json:"owner"` // the user; a reference to another's is owner/name:tag
	Mine      bool      `json:"mine"`
	Name      string    `json:"name"`
	Tag       string    `json:"tag"`
	Moved     bool      `json:"moved"` // the name and tag lead to another one now, and the digest alone to this
	Note      string    `json:"note"`
	Created   time.Time `json:"created"` // when its owner first had it
	Used      time.Time `json:"used"`    // for a job or session, the last time
	Size      int64     `json:"size"`    // bytes of the image
	Own       int64     `json:"own"`     // bytes of that which are not its base's
	Base      string    `json:"base"`
	Session   string    `json:"session"`
	Unchanged bool      `json:"unchanged"`
	Paused    float64   `json:"paused,omitempty"` // seconds for which the freeze that made it held the session still
	Share     Share     `json:"share"`
	Known     bool      `json:"known"` // what follows was found out; it takes some seconds after a freeze
	Packages  int       `json:"packages"`
	Python    string    `json:"python"`
	CUDA      string    `json:"cuda,omitempty"`
	Driver    string    `json:"driver,omitempty"`   // the least that its CUDA needs
	Imports   *Imports  `json:"imports,omitempty"`  // nil: no session has said what it had imported
	Warnings  []string  `json:"warnings,omitempty"` // of a freeze: of quotas that are nearly used up
	Secrets   []string  `json:"secrets,omitempty"`  // of a freeze: files that it let through by her word, though they look like secrets
}

// Share says who may use an environment beside its owner.
type Share struct {
	With  string `json:"with"` // private, group or public
	Group string `json:"group,omitempty"`
}

// EnvironmentDetails is all that is known of an environment.
type EnvironmentDetails struct {
	Environment
	Names        []string `json:"names"` // all that lead to it: name, or name:tag
	Architecture string   `json:"architecture"`
	// Architectures are all for which the reference means an environment; with @arm64 behind it a reference means that
	// one.
	Architectures []string        `json:"architectures"`
	SIF           Blob            `json:"sif"` // the image's file, with its signatures
	Parts         []Blob          `json:"parts"`
	Strip         []StripRule     `json:"strip"`   // what was left out, and why
	Mounts        []string        `json:"mounts"`  // mounted in the session, hence not in the image
	Sockets       []string        `json:"sockets"` // of the session, left out
	Devices       []string        `json:"devices"` // of the session, left out
	Added         []string        `json:"added"`   // for Apptainer
	Allowed       []string        `json:"allowed"` // files with what looks like a secret, here by the owner's word
	Losses        Losses          `json:"losses"`
	CVMFS         []Repository    `json:"cvmfs"`      // repositories that it needs
	Signers       []string        `json:"signers"`    // ids of the keys that have signed the image
	Statements    []Statement     `json:"statements"` // on where it comes from, by keys that the site trusts
	Inventory     json.RawMessage `json:"inventory"`  // packages, interpreters, checkouts, files outside packages
	Copies        []Copy          `json:"copies"`     // in the site's other stores
	Published     []string        `json:"published"`  // names in directories that the site publishes: "cvmfs: alice/ana:v1"
}

// Copy says how one of the site's stores is with an environment.
type Copy struct {
	Store  string     `json:"store"`
	Stored *time.Time `json:"stored,omitempty"`
	Waits  string     `json:"waits,omitempty"` // why it is not stored yet
}

// Blob is content by its digest.
type Blob struct {
	What   string `json:"what,omitempty"` // base, tail or manifest
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// StripRule is what a freeze leaves out, and why.
type StripRule struct {
	Pattern string `json:"pattern"`
	Why     string `json:"why"`
}

// Losses counts what an image cannot hold.
type Losses struct {
	ACLs   int64    `json:"acls"`
	Xattrs int64    `json:"xattrs"`
	Times  int64    `json:"times"`
	Paths  []string `json:"paths"`
	Others []string `json:"others,omitempty"` // what the engine did not give out, in words
}

// Statement says where an environment comes from.
type Statement struct {
	Site     string    `json:"site"` // under which its key is trusted; empty: this site's own key
	Key      string    `json:"key"`
	User     string    `json:"user"`
	Session  string    `json:"session"`
	Kind     string    `json:"kind"`
	Names    []string  `json:"names"`
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Version  string    `json:"version"`
}

// EnvironmentDiff says what one environment has other than another.
type EnvironmentDiff struct {
	Old   Environment     `json:"old"`
	New   Environment     `json:"new"`
	Lines []string        `json:"lines"` // for people: "+ torch 2.9.0"
	Full  json.RawMessage `json:"full"`
}

// EnvironmentCheck says what was proven of an environment.
type EnvironmentCheck struct {
	Environment
	Bytes      int64       `json:"bytes"` // that were read and compared
	Signers    []string    `json:"signers"`
	Statements []Statement `json:"statements"`
	// Tree is the comparison with the session that it was frozen from: a line for each path that differs, the first
	// ones.
	Tree TreeCheck `json:"tree"`
}

// TreeCheck compares an environment's tree with a session's.
type TreeCheck struct {
	Session string `json:"session"` // empty: there was none to compare with
	Why     string `json:"why,omitempty"`
	// Changed: the session went on since, so that what differs may be its own changes, and says nothing against the
	// environment.
	Changed     bool     `json:"changed,omitempty"`
	Paths       int64    `json:"paths"`
	Differences int64    `json:"differences"`
	First       []string `json:"first"`
}

// TagRequest gives an environment another name.
type TagRequest struct {
	Name string `json:"name"`
	Tag  string `json:"tag"`
}

// Removed says what came of removing an environment's name.
type Removed struct {
	Digest string   `json:"digest"`
	Names  []string `json:"names"` // that it still has
}

// EnvironmentUsage says what a user's environments take.
type EnvironmentUsage struct {
	Environments int   `json:"environments"`
	Own          int64 `json:"own"`    // bytes that no base has
	Shared       int64 `json:"shared"` // bytes of the bases under them
	Quota        int64 `json:"quota"`  // of Own; 0: no bound

	Groups   []GroupUsage `json:"groups"`   // the quotas of groups that count for the user
	Warnings []string     `json:"warnings"` // of quotas that are nearly used up
}

// GroupUsage says what the environments of all members of a group take together.
type GroupUsage struct {
	Group string `json:"group"`
	Own   int64  `json:"own"`
	Quota int64  `json:"quota"` // of Own
}

// Swept says what a sweep removed, or would.
type Swept struct {
	Environments []string `json:"environments"`
	Bases        []string `json:"bases"`
	Bytes        int64    `json:"bytes"`
	Dry          bool     `json:"dry"`

	Files []SweptFile `json:"files"` // each of them

	Waiting SweptLater `json:"waiting"`
}

// SweptLater is what nothing leads to and still stays, because it was made or used a moment ago.
type SweptLater struct {
	Environments int       `json:"environments"`
	Bytes        int64     `json:"bytes"`
	Until        time.Time `json:"until,omitzero"` // when the last of it may go
}

// SweptFile is an image or a base that a sweep removed, or would.
type SweptFile struct {
	Digest string    `json:"digest"`
	What   string    `json:"what"` // environment or base
	Bytes  int64     `json:"bytes"`
	Made   time.Time `json:"made"`
}

// Environments lists the caller's environments, and with shared those that others share with her.
func (c *Client) Environments(ctx context.Context, shared bool) ([]Environment, error) {
	where := "/environments"
	if shared {
		where = query(where, "shared", "true")
	}
	list, err := fetch[Environments](ctx, c, http.MethodGet, where, nil)
	return list.Environments, err
}

// Environment finds an environment by digest, unique prefix of it, name or name:tag; another user's by owner/name:tag.
func (c *Client) Environment(ctx context.Context, ref string) (Environment, error) {
	return fetch[Environment](ctx, c, http.MethodGet, path("environments", ref), nil)
}

// EnvironmentDetails returns all that is known of an environment. It waits until that has been found out.
func (c *Client) EnvironmentDetails(ctx context.Context, ref string) (EnvironmentDetails, error) {
	return fetch[EnvironmentDetails](ctx, c, http.MethodGet, path("environments", ref, "details"), nil)
}

// EnvironmentHistory lists what a name has stood for, and what came from the same session, the newest first.
func (c *Client) EnvironmentHistory(ctx context.Context, ref string) ([]Environment, error) {
	list, err := fetch[Environments](ctx, c, http.MethodGet, path("environments", ref, "history"), nil)
	return list.Environments, err
}

// EnvironmentDiff compares two environments.
func (c *Client) EnvironmentDiff(ctx context.Context, old, now string) (EnvironmentDiff, error) {
	return fetch[EnvironmentDiff](ctx, c, http.MethodGet, query(path("environments", now, "diff"), "from", old), nil)
}

// VerifyEnvironment has all bytes of an environment read and compared, and its tree with the session's that it came
// from.
func (c *Client) VerifyEnvironment(ctx context.Context, ref string) (EnvironmentCheck, error) {
	return fetch[EnvironmentCheck](ctx, c, http.MethodPost, path("environments", ref, "verify"), nil)
}

// SBOM returns an environment's software bill of materials, SPDX 2.3 in JSON.
func (c *Client) SBOM(ctx context.Context, ref string) (json.RawMessage, error) {
	return fetch[json.RawMessage](ctx, c, http.MethodGet, path("environments", ref, "sbom"), nil)
}

// TagEnvironment gives an environment another name.
func (c *Client) TagEnvironment(ctx context.Context, ref string, r TagRequest) (Environment, error) {
	return fetch[Environment](ctx, c, http.MethodPost, path("environments", ref, "tags"), r)
}

// ShareEnvironment says who else may use an environment.
func (c *Client) ShareEnvironment(ctx context.Context, ref string, s Share) (Environment, error) {
	return fetch[Environment](ctx, c, http.MethodPost, path("environments", ref, "share"), s)
}

// RemoveEnvironment takes a name away, or with a digest all names.
func (c *Client) RemoveEnvironment(ctx context.Context, ref string) (Removed, error) {
	return fetch[Removed](ctx, c, http.MethodDelete, path("environments", ref), nil)
}

// EnvironmentUsage says what the caller's environments take.
func (c *Client) EnvironmentUsage(ctx context.Context) (EnvironmentUsage, error) {
	return fetch[EnvironmentUsage](ctx, c, http.MethodGet, "/environment-usage", nil)
}

// SweepEnvironments removes what no name, job or session leads to, for an administrator. dry only tells.
func (c *Client) SweepEnvironments(ctx context.Context, dry bool) (Swept, error) {
	where := "/environment-sweep"
	if dry {
		where = query(where, "dry", "true")
	}
	return fetch[Swept](ctx, c, http.MethodPost, where, nil)
}
