"""Real model servers that run the bundled tiny model: llama.cpp's in this process, mlx_lm's in one of its own.

Usage: python -m tests.engine.models.served FILE.gguf PORT [FOLDER]   llama.cpp's, saving slots in a folder
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import gguf
import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import load_file

from tests.demo import NANO
from tests.effort import PATIENCE_S

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"  # the model was trained without one
_NAMES = {
    "embed_tokens": "token_embd", "norm": "output_norm", "input_layernorm": "attn_norm", "q_proj": "attn_q",
    "post_attention_layernorm": "ffn_norm", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
    "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down",
}  # fmt: skip


def write_nano(path: Path) -> Path:
    """Write the bundled tiny model as a GGUF file."""
    return write_llama(NANO, path)


def write_llama(folder: Path, path: Path) -> Path:
    """Write a model of the llama family with tied embeddings as a GGUF file of 32 bits."""
    config = json.loads((folder / "config.json").read_text("utf-8"))
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_rope_dimension_count(config["head_dim"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    _add_tokenizer(writer, folder, config["vocab_size"])
    for name, values in load_file(folder / "model.safetensors").items():
        heads = config["num_key_value_heads" if "k_proj" in name else "num_attention_heads"]
        writer.add_tensor(_renamed(name), _arranged(name, values.astype(np.float32), heads))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_tokenizer(writer: gguf.GGUFWriter, folder: Path, size: int) -> None:
    model = json.loads((folder / "tokenizer.json").read_text("utf-8"))["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].__getitem__)
    tokens += [f"<unused {number}>" for number in range(len(tokens), size)]  # rows that no text has
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3, *[1] * (len(tokens) - 1)])
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def _renamed(name: str) -> str:
    """Return llama.cpp's name of a tensor."""
    parts = name.removeprefix("model.").split(".")
    layer = f"blk.{parts[1]}." if parts[0] == "layers" else ""
    return f"{layer}{_NAMES[parts[-2]]}.weight"


def _arranged(name: str, values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Return a tensor as llama.cpp has it: of queries and keys, numbers that rotate together are neighbours."""
    if not name.endswith(("q_proj.weight", "k_proj.weight")):
        return values
    rows, columns = values.shape
    pairs = values.reshape(heads, 2, rows // heads // 2, columns)
    return np.ascontiguousarray(pairs.swapaxes(1, 2).reshape(rows, columns))


class LlamaServer:
    """llama.cpp's server until it is garbage, on a free port by default; with `slots` it can save slots there."""

    def __init__(self, path: Path, *, port: int = 0, context: int = 1536, slots: str = "") -> None:
        library = pytest.importorskip("xllamacpp", reason="llama.cpp is not installed")
        asked = library.CommonParams()
        asked.model.path = str(path)
        asked.n_ctx, asked.n_parallel, asked.port, asked.verbosity = context, 1, port, 0
        asked.slot_save_path, asked.cache_ram_mib = slots, 0  # former prompts are not copied in memory
        asked.n_gpu_layers, asked.warmup, asked.use_jinja = 0, False, True
        asked.cpuparams.n_threads = 1
        self._server = library.Server(asked)
        self.url = str(self._server.listening_address)


def free_port() -> int:
    """Return a port that nothing listens at."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        return int(free.getsockname()[1])


@contextmanager
def mlx_server(folder: Path) -> Iterator[str]:
    """Yield the URL of mlx_lm's server, which runs the bundled model in a process of its own."""
    port = free_port()
    (folder / "hub").mkdir(parents=True)  # its list of models fails without one
    env = {**os.environ, "HF_HOME": str(folder), "HF_HUB_OFFLINE": "1"}
    words = ["-m", "mlx_lm.server", "--model", str(NANO), "--port", str(port), "--chat-template", TEMPLATE]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([sys.executable, *words], env=env, stdout=log, stderr=log)
    try:
        _wait(f"http://127.0.0.1:{port}/health", process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _wait(url: str, process: "subprocess.Popen[Any]") -> None:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and process.poll() is None:
        try:
            urlopen(url, timeout=PATIENCE_S).close()
            return
        except (URLError, ConnectionError):
            time.sleep(0.05)
    raise AssertionError("the server did not start")


def main() -> None:
    """Serve a file until the process is killed."""
    path, port, *slots = sys.argv[1:]
    server = LlamaServer(Path(path), port=int(port), context=4096, slots=f"{slots[0]}/" if slots else "")
    while server.url:
        time.sleep(PATIENCE_S)


if __name__ == "__main__":
    main()
