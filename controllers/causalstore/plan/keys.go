package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// Keys are the secrets of a store in one region. Each is random and generated once.
type Keys struct {
	// Storage is the password of the only user of the storage.
	Storage string
}

const (
	keyStorage = "storage-password"
	keyUsers   = "users.acl"
	// keyBytes is the number of random bytes in a key.
	keyBytes = 32
)

// storageUser is the user that a middleman authenticates to its storage as.
const storageUser = "causalstore"

// storageRights are the rights that a middleman needs in Redis, as ACL rules.
const storageRights = "~* &* +@read +@write +@transaction +@connection +info +config|get +wait"

// NewKeys generates keys.
func NewKeys(random io.Reader) (Keys, error) {
	b := [keyBytes]byte{}
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return Keys{}, fmt.Errorf("generate keys: %w", err)
	}
	return Keys{hex.EncodeToString(b[:])}, nil
}

// ReadKeys reads what keys has written. Missing keys are taken from fresh.
func ReadKeys(s *corev1.Secret, fresh Keys) Keys {
	if k := (Keys{string(s.Data[keyStorage])}); k.Storage != "" {
		return k
	}
	return fresh
}

// keys holds the keys, and the ACL file of Redis with a digest of the password. The default user cannot log in, but has
// all rights: Redis replays its append-only file at a start as that user, and skips every transaction that the user has
// no right to.
func (b *builder) keys() *corev1.Secret {
	k := b.in.Keys
	digest := sha256.Sum256([]byte(k.Storage))
	users := fmt.Sprintf("user default off ~* &* +@all\nuser %s on #%s %s\n", storageUser,
		hex.EncodeToString(digest[:]), storageRights)
	return &corev1.Secret{ObjectMeta: b.keptMeta(KeysName(b.store.Name), b.labels()), Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{keyStorage: []byte(k.Storage), keyUsers: []byte(users)}}
}
