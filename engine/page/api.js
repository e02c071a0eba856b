// The HTTP API: the token, JSON, and the stream of an answer. Knows nothing of the page.

const KEPT = "pkb-token";
const MOVED = "Open the page with the address that pkb serve --http printed.";

// Take the token out of the address, so that it is neither bookmarked nor seen; returns whether there was one.
export function takeToken() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!token) return false;
  localStorage.setItem(KEPT, token); // a link to a source opens another tab
  history.replaceState(null, "", location.pathname + location.search);
  return true;
}

// What the server, or the way to it, reports: a message, and what to type next.
export class Failure extends Error {
  constructor(message, status = 0, next = null) {
    super(message);
    Object.assign(this, { status, next });
  }
}

async function request(path, options) {
  const token = localStorage.getItem(KEPT);
  if (!token) throw new Failure(MOVED, 401);
  let response;
  try {
    response = await fetch(path, { ...options, headers: { ...options.headers, Authorization: `Bearer ${token}` } });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("The server does not answer. Start it again", 0, "pkb serve --http");
  }
  if (response.ok) return response;
  if (response.status === 401) throw new Failure(MOVED, 401);
  throw failure((await response.json().catch(() => ({}))).error, response.status);
}

const failure = (error, status) => new Failure(error?.message ?? `error ${status}`, status, error?.next ?? null);

export async function get(path, params = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(params).filter(([, value]) => value));
  return (await request(query.size ? `${path}?${query}` : path, { signal })).json();
}

const json = (body) => ({ method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });

export async function post(path, body) {
  return (await request(path, json(body))).json();
}

// Ask; `onText` is called with each new piece. Returns the answer, and its text as it was streamed.
export async function ask(messages, options, onText, signal) {
  const asked = json({ model: "pkb", messages, stream: true, pkb: options });
  const response = await request("/v1/chat/completions", { ...asked, signal });
  let answer = null, text = "";
  for await (const data of events(response.body)) {
    if (data === "[DONE]") break;
    const chunk = JSON.parse(data);
    if (chunk.error) throw failure(chunk.error, 500);
    const piece = chunk.choices?.[0]?.delta?.content;
    if (piece) onText((text += piece));
    answer = chunk.pkb ?? answer;
  }
  if (!answer) throw new Failure("The server stopped before the answer was complete; ask again");
  return { answer, text };
}

// The data of each server-sent event of a byte stream, however it is cut into pieces.
export async function* events(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "", data = [];
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines.map((one) => one.replace(/\r$/, ""))) {
        if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
        if (line !== "" || !data.length) continue;
        yield data.join("\n");
        data = [];
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // of an aborted request, which has reported so itself
  }
}
