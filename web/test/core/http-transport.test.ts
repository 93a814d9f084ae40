import assert from "node:assert/strict";
import { afterEach, test } from "node:test";
import { HttpTransport } from "../../src/core/http-transport";
import { UserError } from "../../src/core/types";
import { frame } from "../frames";
import { pair } from "../sessions";
import * as views from "../../src/core/views";

const session = pair();
const real = globalThis.fetch;
const at = (pathname: string) => Object.assign(globalThis, { location: { pathname } });
at("/");
afterEach(() => void (globalThis.fetch = real));

/** The next calls get this answer; returns what was asked. */
function answer(make: () => Response | Promise<Response>): { path: string; options: RequestInit }[] {
  const asked: { path: string; options: RequestInit }[] = [];
  globalThis.fetch = (async (path: string, options: RequestInit) => {
    asked.push({ path, options });
    return make();
  }) as typeof fetch;
  return asked;
}

/** A stream that comes in pieces, cut anywhere. */
const stream = (...pieces: string[]) =>
  new Response(new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(new TextEncoder().encode(piece));
      controller.close();
    },
  }));

const refused = (kind: UserError["kind"], message: RegExp) => (error: unknown) => error instanceof UserError && error.kind === kind && message.test(error.message);

test("a run tells how far it is, block by block, and ends with the session", async () => {
  const asked = answer(() => stream('{"done":1,', '"of":2}\n{"done":2,"of":2}\n{"re', `ady":${JSON.stringify(session)}}\n`));
  const seen: number[] = [];
  const ready = await new HttpTransport("secret").run(["a b", "c d"], ({ done }) => seen.push(done));
  assert.deepEqual(seen, [1, 2]);
  assert.deepEqual(ready, session);
  assert.equal(asked[0].options.method, "POST");
  assert.deepEqual(JSON.parse(asked[0].options.body as string), { texts: ["a b", "c d"] });
  assert.equal((asked[0].options.headers as Record<string, string>).Authorization, "Bearer secret");
});

test("of several models, each has its own path", async () => {
  const asked = answer(() => stream(`{"ready":${JSON.stringify(session)}}\n`));
  at("/look/a%20b/seed-1");
  await new HttpTransport("secret").run(null, () => undefined);
  at("/");
  assert.equal(asked[0].path, "/api/look/a%20b/seed-1//runs");
});

test("the text the program was started with is asked for by saying none", async () => {
  const asked = answer(() => stream(`{"ready":${JSON.stringify(session)}}`));
  await new HttpTransport(null).run(null, () => {});
  assert.equal(asked[0].options.body, "{}");
  assert.equal("Authorization" in (asked[0].options.headers as object), false);
});

test("an error in the stream, and a stream that ends too soon, are refusals", async () => {
  answer(() => stream('{"done":1,"of":2}\n{"error":"the text is empty"}\n'));
  await assert.rejects(new HttpTransport("k").run(["x"], () => {}), refused("request", /the text is empty/));
  answer(() => stream('{"done":1,"of":2}\n'));
  await assert.rejects(new HttpTransport("k").run(["x"], () => {}), refused("unreachable", /has ended/));
});

const statuses: [number, UserError["kind"], RegExp][] = [
  [401, "token", /let go/],
  [410, "gone", /let go/],
  [413, "request", /let go/],
  [400, "request", /let go/],
];
for (const [status, kind, message] of statuses) {
  test(`${status} is a refusal of the kind ${kind}`, async () => {
    answer(() => Response.json({ error: "the pass was let go" }, { status }));
    await assert.rejects(views.row(new HttpTransport("k"), session, "self", 0, 0, 0), refused(kind, message));
  });
}

test("nobody there is a refusal; a call that was called off is not", async () => {
  answer(() => Promise.reject(new TypeError("Failed to fetch")));
  await assert.rejects(views.row(new HttpTransport("k"), session, "self", 0, 0, 0), refused("unreachable", /has ended/));
  answer(() => Promise.reject(new DOMException("called off", "AbortError")));
  await assert.rejects(views.row(new HttpTransport("k"), session, "self", 0, 0, 0), (error) => error instanceof DOMException);
});

test("lines are asked for by half-open ranges and read as they are", async () => {
  const asked = answer(() => new Response(frame("lines", { map: "self", members: [[1, 0]], mix: "each", rows: [0, 2] }, [
    ["keys", "u32", [1, 2, 1], Uint32Array.of(3, 0)],
    ["probs", "f32", [1, 2, 1], Float32Array.of(0.5, 0.75)],
    ["other", "f32", [1, 2], Float32Array.of(0.5, 0.25)],
  ])));
  const lines = await views.lines(new HttpTransport("k"), session, { map: "self", layers: [1, 1], heads: [0], mix: "each", rows: [0, 2], count: 1, keys: ["0", "special"] });
  assert.equal(asked[0].path, "/api/view/lines");
  assert.deepEqual(JSON.parse(asked[0].options.body as string), { s: "one", map: "self", layers: [1, 2], heads: [0], mix: "each", rows: [0, 2], count: 1, keys: ["0", "special"] });
  assert.deepEqual([lines.maps, lines.count, [...lines.keys], [...lines.other]], [1, 1, [3, 0], [0.5, 0.25]]);
  assert.deepEqual(lines.members, [[1, 0]]);
});

test("a neuron answer keeps what the map has", async () => {
  const arrays = ["q", "k", "v", "scores", "probs", "z"].map((name): [string, string, number[], Float32Array] => [name, "f32", [2], Float32Array.of(1, 2)]);
  answer(() => new Response(frame("neuron", { keys: [0, 1], scale: 0.5, kv_head: 0 }, arrays)));
  const neuron = await views.neuron(new HttpTransport("k"), session, "self", 0, 1, 2, [0, 1]);
  assert.deepEqual([neuron.head, neuron.query, neuron.scale, neuron.kv_head, neuron.keys], [1, 2, 0.5, 0, [0, 1]]);
  assert.deepEqual([...neuron.z], [1, 2]);
  assert.equal(neuron.bias, undefined);
});

test("what is written comes line by line; what JSON has no word for is minus infinity", async () => {
  const asked = answer(() => stream('{"trace":{"id":"w"}}\n{"step":{"nodes":[{"logprob":null,"total":-1}],', '"live":[{"score":null}]}}\n{"ready":{"answers":[]}}\n'));
  const heard: string[] = [];
  await new HttpTransport("k").write({ prompt: null, options: { num_beams: 2 } }, (line) => {
    heard.push(...Object.keys(line));
    if ("step" in line) assert.deepEqual([line.step.nodes[0].logprob, line.step.nodes[0].total, line.step.live[0].score], [-Infinity, -1, -Infinity]);
  });
  assert.deepEqual(heard, ["trace", "step", "ready"]);
  assert.deepEqual([asked[0].path, JSON.parse(asked[0].options.body as string)], ["/api/write", { prompt: null, options: { num_beams: 2 } }]);
});

test("a writing that fails, or breaks off, is a refusal, and what came before was heard", async () => {
  for (const [last, kind, message] of [['{"error":"the logits hold NaN"}\n', "request", /NaN/], ["", "unreachable", /has ended/]] as [string, UserError["kind"], RegExp][]) {
    answer(() => stream(`{"trace":{"id":"w"}}\n${last}`));
    let heard = 0;
    await assert.rejects(new HttpTransport("k").write({ w: "w", node: 0, tokens: [1] }, () => heard++), refused(kind, message));
    assert.equal(heard, 1);
  }
});

test("a page is asked for by its session, or by what was written", async () => {
  const asked = answer(() => new Response("<!doctype html>"));
  await new HttpTransport("k").page(session);
  await new HttpTransport("k").page(session, { w: "x", node: 3 });
  assert.deepEqual(asked.map(({ path }) => path), [`/api/page?s=${session.id}`, "/api/page?w=x&node=3"]);
});
