package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"slipway/internal/errs"
)

// Record is one key and its JSON value.
type Record = struct {
	Key   string
	Value json.RawMessage
}

// statements are what a store says to its file, prepared once: parsing one costs about as much as carrying it out in
// memory.
type statements struct{ put, get, remove, all *sql.Stmt }

func prepareStatements(ctx context.Context, db *sql.DB) (s statements, err error) {
	for _, each := range []struct {
		into **sql.Stmt
		text string
	}{
		{&s.put, `INSERT INTO records (bucket, key, value) VALUES (?, ?, ?) ON CONFLICT (bucket, key) DO UPDATE SET value = excluded.value`},
		{&s.get, `SELECT value FROM records WHERE bucket = ? AND key = ?`},
		{&s.remove, `DELETE FROM records WHERE bucket = ? AND key = ?`},
		{&s.all, `SELECT key, value FROM records WHERE bucket = ? ORDER BY key`},
	} {
		if *each.into, err = db.PrepareContext(ctx, each.text); err != nil {
			return statements{}, err
		}
	}
	return s, nil
}

// records are the methods that Store and Tx share.
type records struct {
	statements
	in    func(context.Context, *sql.Stmt) *sql.Stmt // gives the statement within the transaction, if there is one
	wrote func()                                     // is called after each write that is not part of a transaction
	path  string
}

// alone is records.in outside of a transaction.
func alone(_ context.Context, s *sql.Stmt) *sql.Stmt { return s }

// Put saves value as JSON under key, in place of what was there.
func (r records) Put(ctx context.Context, bucket, key string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s/%s: %w", bucket, key, err)
	}
	if _, err := r.in(ctx, r.put).ExecContext(ctx, bucket, key, raw); err != nil {
		return classify(r.path, fmt.Sprintf("save %s/%s", bucket, key), err)
	}
	r.wrote()
	return nil
}

// Get decodes the value under key into the pointer into. Where there is none, the error is of kind errs.NotFound.
func (r records) Get(ctx context.Context, bucket, key string, into any) error {
	var raw []byte
	err := r.in(ctx, r.get).QueryRowContext(ctx, bucket, key).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return errs.New(errs.NotFound, "the store has no %s/%s", bucket, key)
	}
	if err != nil {
		return classify(r.path, fmt.Sprintf("read %s/%s", bucket, key), err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("decode %s/%s: %w", bucket, key, err)
	}
	return nil
}

// Delete removes key. Removing what is not there is success.
func (r records) Delete(ctx context.Context, bucket, key string) error {
	if _, err := r.in(ctx, r.remove).ExecContext(ctx, bucket, key); err != nil {
		return classify(r.path, fmt.Sprintf("delete %s/%s", bucket, key), err)
	}
	r.wrote()
	return nil
}

// All returns the records of bucket as they were when the loop began, in the order of their keys; after an error it
// ends. The store may be written inside the loop.
func (r records) All(ctx context.Context, bucket string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		all, err := r.read(ctx, bucket)
		if err != nil {
			yield(Record{}, classify(r.path, "list "+bucket, err))
			return
		}
		for _, record := range all {
			if !yield(record, nil) {
				return
			}
		}
	}
}

// read takes everything into memory: with one connection, a loop that writes while rows are open would wait for itself.
func (r records) read(ctx context.Context, bucket string) ([]Record, error) {
	rows, err := r.in(ctx, r.all).QueryContext(ctx, bucket)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []Record
	for rows.Next() {
		var key string
		var value []byte
		if err := rows.Scan(&key, &value); err != nil {
			return nil, err
		}
		all = append(all, Record{Key: key, Value: value})
	}
	return all, rows.Err()
}
