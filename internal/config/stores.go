package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"slipway/internal/secret"
)

// EnvironmentStore is a place beside data_dir where every environment has a copy: a directory or a bucket.
type EnvironmentStore struct {
	Name      string `yaml:"name"`      // in what is said of it
	Directory string `yaml:"directory"` // that is there; or s3
	S3        Bucket `yaml:"s3"`        // a bucket; or directory
}

// Bucket is a bucket of an S3-compatible store.
type Bucket struct {
	Endpoint       string `yaml:"endpoint"`         // host:port
	Bucket         string `yaml:"bucket"`           // that is there
	Prefix         string `yaml:"prefix"`           // of all keys, such as slipway/
	Region         string `yaml:"region"`           // as the store wants it
	AccessKey      string `yaml:"access_key"`       // its name
	SecretFile     string `yaml:"secret_key_file"`  // of the secret key, mode 0600
	AllowPlainHTTP bool   `yaml:"allow_plain_http"` // HTTP without TLS
}

// Secret reads the secret key.
func (b Bucket) Secret() (secret.Text, error) {
	return readSecret(b.SecretFile, "the secret key of bucket "+b.Bucket)
}

// EnvironmentExport is a directory that CVMFS or XRootD publishes.
type EnvironmentExport struct {
	Name      string   `yaml:"name"`      // in what is said of it
	Directory string   `yaml:"directory"` // that is published
	Forms     []string `yaml:"forms"`     // sif, unpacked
	// Public or any.
	Shared  string   `yaml:"shared" jsonschema:"enum=public,enum=any"`
	Tags    []string `yaml:"tags"` // patterns; empty: all
	Begin   []string `yaml:"begin"`
	Publish []string `yaml:"publish"` // run after a change
	Abort   []string `yaml:"abort"`   // run before the next change where one was not finished
}

// What an EnvironmentExport says.
const (
	FormSIF      = "sif"
	FormUnpacked = "unpacked"
	SharedPublic = "public" // what its owner shares with everybody
	SharedAny    = "any"    // whatever has one of the tags
)

func (e *EnvironmentExport) setDefaults() {
	*e = EnvironmentExport{Forms: []string{FormSIF}, Shared: SharedPublic}
}

// RegistryURL returns where other hosts find the service's registry.
func (c Config) RegistryURL() *url.URL {
	if c.Uplink.URL != "" {
		return c.Uplink.At()
	}
	scheme := "https"
	if c.TLS.Cert == "" {
		scheme = "http"
	}
	return &url.URL{Scheme: scheme, Host: c.Listen}
}

// checkPlaces looks at where environments go beside data_dir.
func (c Config) checkPlaces(p *problems) {
	names, places := map[string]bool{}, map[string]bool{}
	for i, s := range c.Environments.Stores {
		at := fmt.Sprintf("environments.stores[%d].", i)
		c.checkPlaceName(at, s.Name, names, p)
		switch {
		case (s.Directory == "") == (s.S3 == Bucket{}):
			p.add(at+"directory", s.Directory, "either directory or s3")
		case s.Directory != "":
			c.checkPlaceDirectory(at, s.Directory, places, p)
		default:
			s.S3.check(at+"s3.", places, p)
		}
	}
	names = map[string]bool{}
	for i, e := range c.Environments.Exports {
		at := fmt.Sprintf("environments.exports[%d].", i)
		c.checkPlaceName(at, e.Name, names, p)
		c.checkPlaceDirectory(at, e.Directory, places, p)
		e.check(at, p)
	}
}

func (c Config) checkPlaceName(at, name string, names map[string]bool, p *problems) {
	if !plainName.MatchString(name) || names[name] {
		p.add(at+"name", name, "a name that no other one has, of lower-case letters, digits, '-', '_' and '.'")
	}
	names[name] = true
}

// checkPlaceDirectory wants a place of its own: a copy that is lost with the original is none.
func (c Config) checkPlaceDirectory(at, dir string, places map[string]bool, p *problems) {
	switch clean := filepath.Clean(dir); {
	case !filepath.IsAbs(dir):
		p.add(at+"directory", dir, "an absolute path")
	case within(clean, filepath.Clean(c.DataDir)) || within(filepath.Clean(c.DataDir), clean):
		p.add(at+"directory", dir, "a directory outside of data_dir, on another file system")
	case places[clean]:
		p.add(at+"directory", dir, "a directory of its own: one above has the same")
	default:
		places[clean] = true
	}
}

// within says whether a path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func (b Bucket) check(at string, places map[string]bool, p *problems) {
	if !dialable(b.Endpoint) || strings.Contains(b.Endpoint, "/") {
		p.add(at+"endpoint", b.Endpoint, "host:port without a scheme, such as s3.example.org:443")
	}
	if b.Bucket == "" || strings.Contains(b.Bucket, "/") {
		p.add(at+"bucket", b.Bucket, "the name of a bucket that is there")
	}
	if strings.HasPrefix(b.Prefix, "/") || b.Prefix != "" && !strings.HasSuffix(b.Prefix, "/") {
		p.add(at+"prefix", b.Prefix, "the beginning of keys, such as slipway/, or nothing")
	}
	place := b.Endpoint + "/" + b.Bucket + "/" + b.Prefix
	if places[place] {
		p.add(at+"bucket", b.Bucket, "a bucket or a prefix of its own: a store above has the same")
	}
	places[place] = true
	if b.AccessKey == "" {
		p.add(at+"access_key", "", "the access key's name; its secret stands in secret_key_file")
	}
	if why := checkKeyFile(b.SecretFile); why != "" {
		p.file(at+"secret_key_file", b.SecretFile, why)
	}
}

// checkKeyFile says what is wrong with a file that holds somebody else's secret, of whatever length.
func checkKeyFile(file string) string {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "write the secret key there, in a file that only its owner can read"
	case err != nil:
		return "a file that can be read: " + err.Error()
	case info.Mode().Perm()&0o077 != 0:
		return fmt.Sprintf("a file that only its owner can read (it has mode %04o): chmod 600 it", info.Mode().Perm())
	case info.Size() == 0:
		return "a file with the secret key: it is empty"
	}
	return ""
}

func (e EnvironmentExport) check(at string, p *problems) {
	if len(e.Forms) == 0 || slices.ContainsFunc(e.Forms, func(f string) bool { return f != FormSIF && f != FormUnpacked }) {
		p.add(at+"forms", e.Forms, "a list of "+FormSIF+" and "+FormUnpacked)
	}
	switch {
	case e.Shared != SharedPublic && e.Shared != SharedAny:
		p.add(at+"shared", e.Shared, SharedPublic+" or "+SharedAny)
	case e.Shared == SharedAny && len(e.Tags) == 0:
		p.add(at+"tags", "[]", "patterns of the tags that users give what is to be published, such as [\"release-*\"]: with shared: any nothing else holds it back")
	}
	for _, pattern := range e.Tags {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			p.add(at+"tags", pattern, "a pattern such as release-* or v?")
		}
	}
	if (len(e.Begin) == 0) != (len(e.Publish) == 0) || len(e.Abort) > 0 && len(e.Begin) == 0 {
		p.add(at+"begin", e.Begin, "begin and publish together, with abort if you like, such as [cvmfs_server, transaction, REPOSITORY]; or none of them")
	}
}
