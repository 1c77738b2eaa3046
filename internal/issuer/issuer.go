// Package issuer is the client of one OIDC issuer.
package issuer
