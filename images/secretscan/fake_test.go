package secretscan

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Secrets of these tests are made when they run: none stands in the repository, where other scanners would find it.

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// random returns text of an alphabet with a capital, a small letter and a digit in it where the alphabet has them; the
// same for the same seed.
func random(seed uint64, length int, alphabet string) string {
	r := mathrand.New(mathrand.NewPCG(seed, 7))
	for {
		out := make([]byte, length)
		for i := range out {
			out[i] = alphabet[r.IntN(len(alphabet))]
		}
		if alphabet != base62 || mixed(out) {
			return string(out)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func armored(label string, der []byte, headers map[string]string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der, Headers: headers}))
}

func rsaKey() string {
	return armored("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(must(rsa.GenerateKey(rand.Reader, 1024))), nil)
}

func ecKey() string {
	return armored("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)))), nil)
}

func pkcs8Key() string {
	return armored("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader)))), nil)
}

func sealedPKCS8() string {
	type sealed struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	algorithm := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 3}}
	return armored("ENCRYPTED PRIVATE KEY", must(asn1.Marshal(sealed{algorithm, make([]byte, 200)})), nil)
}

func sealedRSA() string {
	return armored("RSA PRIVATE KEY", []byte(random(1, 128, base62)), map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"})
}

func opensshKey(cipher string) string {
	raw := binary.BigEndian.AppendUint32([]byte("openssh-key-v1\x00"), uint32(len(cipher)))
	return armored("OPENSSH PRIVATE KEY", append(append(raw, cipher...), random(2, 100, base62)...), nil)
}

func pgpKey() string {
	return armored("PGP PRIVATE KEY BLOCK", append([]byte{0x95}, random(3, 100, base62)...), map[string]string{"Version": "x"})
}

// gridProxy returns a proxy as Globus writes it: certificate, key, the issuer's certificate.
func gridProxy(until time.Time, extension asn1.ObjectIdentifier) string {
	key := must(rsa.GenerateKey(rand.Reader, 1024))
	cert := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "12345"}, NotBefore: until.Add(-time.Hour), NotAfter: until,
		ExtraExtensions: []pkix.Extension{{Id: extension, Critical: true, Value: []byte{0x30, 0}}},
	}
	der := armored("CERTIFICATE", must(x509.CreateCertificate(rand.Reader, &cert, &cert, &key.PublicKey, key)), nil)
	return der + armored("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key), nil) + der
}

func proxyCertInfo() asn1.ObjectIdentifier { return asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 14} }

func token(header, claims any, signature string) string {
	part := func(v any) string { return base64.RawURLEncoding.EncodeToString(must(json.Marshal(v))) }
	return part(header) + "." + part(claims) + "." + signature
}

func jwt(claims map[string]any) string {
	return token(map[string]string{"alg": "ES256", "typ": "JWT"}, claims, random(4, 86, base62))
}

func later() int64 { return time.Now().Add(time.Hour).Unix() }

func github(prefix string) string {
	body := random(5, 30, base62)
	return prefix + "_" + body + string(checksum62([]byte(body)))
}

// macaroonV1 has packets of format 1.
func macaroonV1(caveats ...string) string {
	packet := func(name, value string) string {
		return fmt.Sprintf("%04x%s %s\n", len(name)+len(value)+6, name, value)
	}
	raw := packet("location", "https://dcache.example") + packet("identifier", "id-1")
	for _, c := range caveats {
		raw += packet("cid", c)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(raw + packet("signature", random(6, 32, base62))))
}

// macaroonV2 has the fields of format 2.
func macaroonV2(location string) string {
	field := func(number byte, v string) string { return string([]byte{number, byte(len(v))}) + v }
	raw := "\x02" + field(1, location) + field(2, "identifier") + "\x00" + field(2, "caveat") + "\x00" + "\x00" + field(6, random(7, 32, base62))
	return base64.RawURLEncoding.EncodeToString([]byte(raw))
}

func counted32(s string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s
}

func ticketCache(version byte) string {
	raw := string([]byte{5, version})
	if version == 4 {
		raw += "\x00\x0c" + strings.Repeat("\x00", 12)
	}
	return raw + "\x00\x00\x00\x01" + "\x00\x00\x00\x01" + counted32("CERN.CH") + counted32("alice") + random(8, 200, base62)
}

func kerberosKeytab(hole bool) string {
	entry := "\x00\x01\x00\x07CERN.CH\x00\x05alice" + random(9, 60, base62)
	raw := "\x05\x02"
	if hole {
		raw += "\xff\xff\xff\xf0" + strings.Repeat("\x00", 16)
	}
	return raw + counted32(entry)
}

func pkcs12() string {
	return string(must(asn1.Marshal(struct {
		Version int
		Data    []byte
	}{3, make([]byte, 300)})))
}

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// notebook returns a notebook whose one cell has printed text.
func notebook(text string) string {
	lines := strings.SplitAfter(text, "\n")
	return string(must(json.MarshalIndent(map[string]any{"nbformat": 4, "cells": []any{map[string]any{
		"cell_type": "code", "source": []string{"print(x)"}, "outputs": []any{map[string]any{"output_type": "stream", "text": lines}},
	}}}, "", " ")))
}

func scanned(t testing.TB, path, content string) []Finding {
	t.Helper()
	s := newScanner(t)
	s.Look(path, []byte(content))
	r, err := s.Report(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Findings
}
