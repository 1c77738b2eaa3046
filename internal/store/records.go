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

// querier is what *sql.DB and *sql.Tx have in common.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// records are the methods that Store and Tx share.
type records struct {
	q    querier
	path string
}

// Put saves value as JSON under key, in place of what was there.
func (r records) Put(ctx context.Context, bucket, key string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %s/%s: %w", bucket, key, err)
	}
	const q = `INSERT INTO records (bucket, key, value) VALUES (?, ?, ?)
		ON CONFLICT (bucket, key) DO UPDATE SET value = excluded.value`
	if _, err := r.q.ExecContext(ctx, q, bucket, key, raw); err != nil {
		return classify(r.path, fmt.Sprintf("save %s/%s", bucket, key), err)
	}
	return nil
}

// Get decodes the value under key into the pointer into. Where there is none, the error is of kind errs.NotFound.
func (r records) Get(ctx context.Context, bucket, key string, into any) error {
	var raw []byte
	err := r.q.QueryRowContext(ctx, `SELECT value FROM records WHERE bucket = ? AND key = ?`, bucket, key).Scan(&raw)
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
	if _, err := r.q.ExecContext(ctx, `DELETE FROM records WHERE bucket = ? AND key = ?`, bucket, key); err != nil {
		return classify(r.path, fmt.Sprintf("delete %s/%s", bucket, key), err)
	}
	return nil
}

// All gives the records of bucket as they were when the loop began, in the order of their keys; after an error it ends.
// The store may be written inside the loop.
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
	rows, err := r.q.QueryContext(ctx, `SELECT key, value FROM records WHERE bucket = ? ORDER BY key`, bucket)
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
