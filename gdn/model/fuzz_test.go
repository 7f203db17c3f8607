package model

import (
	"bytes"
	"testing"
)

// FuzzConfig reads any bytes as a config.json.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"model_type":"qwen3_next","hidden_size":2048,"num_hidden_layers":48,"full_attention_interval":4,"linear_num_key_heads":16,"linear_num_value_heads":32,"linear_key_head_dim":128,"linear_value_head_dim":128,"linear_conv_kernel_dim":4,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,"vocab_size":151936,"intermediate_size":5120,"layer_types":["linear_attention"]}`))
	f.Add([]byte(`{"model_type":"kimi_linear","hidden_size":64,"num_hidden_layers":4,"linear_attn_config":{"num_heads":4,"head_dim":16,"kda_layers":[1,2,3],"full_attn_layers":[4],"short_conv_kernel_size":4}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		c.Spec()
		c.Parameters()
		c.StepFlops(true)
		Parts(c)
	})
}
