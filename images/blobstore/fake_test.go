package blobstore

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"slipway/internal/secret"
)

const (
	accessKey = "access"
	secretKey = "hunter2secret"
	bucket    = "envs"
)

// fakeS3 is a small S3 server. It checks signatures (AWS Signature Version 4), and the MD5 of each part.
type fakeS3 struct {
	t       testing.TB
	mu      sync.Mutex
	objects map[string][]byte
	uploads map[string]map[int][]byte
	fail    int // so many requests are answered 503
	parts   int // that were uploaded
}

func newS3(t testing.TB) (*fakeS3, *S3) {
	t.Helper()
	f := &fakeS3{t: t, objects: map[string][]byte{}, uploads: map[string]map[int][]byte{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	s, err := OpenS3(S3Config{
		Endpoint: server.Listener.Addr().String(), Plain: true, Bucket: bucket, Prefix: "environments/",
		AccessKey: accessKey, SecretKey: secret.New(secretKey),
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, s
}

func (f *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		f.t.Error(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q := r.URL.Query()
	switch {
	case !signed(r):
		refuse(w, http.StatusForbidden, "SignatureDoesNotMatch")
	case f.fail > 0:
		f.fail--
		refuse(w, http.StatusServiceUnavailable, "SlowDown")
	case name != bucket:
		refuse(w, http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodGet && key == "":
		f.list(w, q)
	case r.Method == http.MethodPost && q.Has("uploads"):
		id := strconv.Itoa(len(f.uploads) + 1)
		f.uploads[id] = map[int][]byte{}
		fmt.Fprintf(w, `<InitiateMultipartUploadResult><UploadId>%s</UploadId></InitiateMultipartUploadResult>`, id)
	case r.Method == http.MethodPut:
		f.put(w, r, q, key, body)
	case r.Method == http.MethodPost && q.Has("uploadId"):
		f.complete(w, q.Get("uploadId"), key, body)
	case r.Method == http.MethodDelete:
		delete(f.objects, key)
		w.WriteHeader(http.StatusNoContent)
	default:
		f.get(w, r, key)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `<Error><Code>%s</Code><Message>no</Message></Error>`, code)
}

func (f *fakeS3) put(w http.ResponseWriter, r *http.Request, q url.Values, key string, body []byte) {
	sum := md5.Sum(body)
	if got := r.Header.Get("Content-Md5"); got != base64.StdEncoding.EncodeToString(sum[:]) {
		f.t.Errorf("a part of %d bytes came with the MD5 %q", len(body), got)
	}
	w.Header().Set("Etag", fmt.Sprintf(`"%x"`, sum))
	f.parts++
	if id := q.Get("uploadId"); id != "" {
		n, _ := strconv.Atoi(q.Get("partNumber"))
		f.uploads[id][n] = body
		return
	}
	f.objects[key] = body
}

func (f *fakeS3) complete(w http.ResponseWriter, id, key string, body []byte) {
	var asked struct {
		Part []struct{ PartNumber int }
	}
	if err := xml.Unmarshal(body, &asked); err != nil || len(asked.Part) != len(f.uploads[id]) {
		f.t.Errorf("%d parts of %d: %v", len(asked.Part), len(f.uploads[id]), err)
	}
	var all []byte
	for _, p := range asked.Part {
		all = append(all, f.uploads[id][p.PartNumber]...)
	}
	f.objects[key] = all
	fmt.Fprintf(w, `<CompleteMultipartUploadResult><Bucket>envs</Bucket><Key>%s</Key><ETag>"x"</ETag></CompleteMultipartUploadResult>`, key)
}

func (f *fakeS3) get(w http.ResponseWriter, r *http.Request, key string) {
	data, ok := f.objects[key]
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	w.Header().Set("Etag", `"x"`)
	http.ServeContent(w, r, "", time.Unix(1e9, 0), strings.NewReader(string(data)))
}

// list gives two keys a page.
func (f *fakeS3) list(w http.ResponseWriter, q url.Values) {
	var keys []string
	for key := range f.objects {
		if strings.HasPrefix(key, q.Get("prefix")) && key > q.Get("continuation-token") {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	more := len(keys) > 2
	keys = keys[:min(2, len(keys))]
	fmt.Fprintf(w, `<ListBucketResult><Name>%s</Name><IsTruncated>%v</IsTruncated>`, bucket, more)
	if more {
		fmt.Fprintf(w, `<NextContinuationToken>%s</NextContinuationToken>`, keys[1])
	}
	for _, key := range keys {
		fmt.Fprintf(w, `<Contents><Key>%s</Key><Size>%d</Size><LastModified>2026-01-02T03:04:05Z</LastModified></Contents>`, key, len(f.objects[key]))
	}
	fmt.Fprint(w, `</ListBucketResult>`)
}

// signed checks a request's signature as Amazon documents it.
func signed(r *http.Request) bool {
	fields := map[string]string{}
	for _, part := range strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 "), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	scope := strings.Split(fields["Credential"], "/")
	if len(scope) != 5 || scope[0] != accessKey {
		return false
	}
	var headers strings.Builder
	for _, name := range strings.Split(fields["SignedHeaders"], ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.Join(strings.Fields(value), " "))
	}
	query := strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20")
	canonical := strings.Join([]string{r.Method, r.URL.EscapedPath(), query, headers.String(), fields["SignedHeaders"], r.Header.Get("X-Amz-Content-Sha256")}, "\n")
	hashed := sha256.Sum256([]byte(canonical))
	text := strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), strings.Join(scope[1:], "/"), hex.EncodeToString(hashed[:])}, "\n")
	key := []byte("AWS4" + secretKey)
	for _, part := range append(scope[1:], text) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	return hex.EncodeToString(key) == fields["Signature"]
}
