package lm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gomlx/go-huggingface/tokenizers/api"
	"github.com/gomlx/go-huggingface/tokenizers/hftokenizer"
)

// Tokenizer converts text to tokens and back, by a model's tokenizer.json.
type Tokenizer struct {
	t    *hftokenizer.Tokenizer
	ends map[int32]bool
}

// OpenTokenizer reads a folder's tokenizer.json, and the end tokens in config.json and generation_config.json.
func OpenTokenizer(folder string) (*Tokenizer, error) {
	var config *api.Config
	path := filepath.Join(folder, "tokenizer_config.json")
	if _, err := os.Stat(path); err == nil {
		if config, err = api.ParseConfigFile(path); err != nil {
			return nil, fmt.Errorf("lm: tokenizer: %s: %w", path, err)
		}
	}
	t, err := hftokenizer.NewFromFile(config, filepath.Join(folder, "tokenizer.json"))
	if err != nil {
		return nil, fmt.Errorf("lm: tokenizer: %w", err)
	}
	if err := t.With(api.EncodeOptions{}); err != nil {
		return nil, fmt.Errorf("lm: tokenizer: %w", err)
	}
	out := &Tokenizer{t: t, ends: map[int32]bool{}}
	for _, name := range []string{"config.json", "generation_config.json"} {
		if err := out.readEnds(filepath.Join(folder, name)); err != nil {
			return nil, fmt.Errorf("lm: tokenizer: %w", err)
		}
	}
	if end, err := t.SpecialTokenID(api.TokEndOfSentence); err == nil {
		out.ends[int32(end)] = true
	}
	return out, nil
}

// readEnds reads the field eos_token_id of a file, which may be missing.
func (t *Tokenizer) readEnds(path string) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var f struct {
		End  json.RawMessage `json:"eos_token_id"`
		Text struct {
			End json.RawMessage `json:"eos_token_id"`
		} `json:"text_config"`
	}
	if err = errors.Join(err, json.Unmarshal(data, &f)); err != nil {
		return err
	}
	for _, raw := range []json.RawMessage{f.End, f.Text.End} {
		var list []int32
		var one *int32
		switch {
		case raw == nil:
		case json.Unmarshal(raw, &one) == nil:
			if one != nil {
				list = []int32{*one}
			}
		case json.Unmarshal(raw, &list) != nil:
			return fmt.Errorf("%s: eos_token_id is %s, want a number or a list of them", path, raw)
		}
		for _, end := range list {
			t.ends[end] = true
		}
	}
	return nil
}

// Encode returns the tokens of a text. Names of special tokens in it become special tokens.
func (t *Tokenizer) Encode(text string) []int32 {
	var out []int32
	for _, id := range t.t.Encode(text) {
		out = append(out, int32(id))
	}
	return out
}

// Decode returns the text of tokens.
func (t *Tokenizer) Decode(tokens []int32) string {
	list := make([]int, len(tokens))
	for i, id := range tokens {
		list[i] = int(id)
	}
	return t.t.Decode(list)
}

// Has reports whether the vocabulary has a token with this name.
func (t *Tokenizer) Has(name string) bool {
	_, ok := t.t.GetVocab()[name]
	return ok
}

// Ends reports whether a token ends an answer.
func (t *Tokenizer) Ends(token int32) bool { return t.ends[token] }
