import assert from "node:assert/strict";
import { test } from "node:test";
import { RequestPool } from "../src/views/matrix/request-pool";

const settle = () => new Promise((resolve) => setTimeout(resolve));

/** A pool of numbers whose answers are given by hand. */
function pool(parallel: number, kept: number) {
  const open = new Map<number, { give(): void; fail(): void; signal: AbortSignal }>();
  const asked: number[] = [];
  const refused: unknown[] = [];
  const made = new RequestPool<number, string>({
    key: String,
    ask: (n, signal) =>
      new Promise((resolve, reject) => {
        asked.push(n);
        open.set(n, { give: () => resolve(`answer ${n}`), fail: () => reject(new Error(`no ${n}`)), signal });
      }),
    cached: kept,
    parallel,
    arrived: () => {},
    handleError: (error) => refused.push(error),
  });
  return { made, open, asked, refused };
}

test("the most urgent first, no more than so many at a time, each once", async () => {
  const { made, open, asked } = pool(2, 9);
  made.want([5, 6, 7]);
  made.want([5, 6, 7]);
  assert.deepEqual(asked, [5, 6]);
  open.get(5)!.give();
  await settle();
  assert.deepEqual(asked, [5, 6, 7]);
  assert.equal(made.get(5), "answer 5");
});

test("what is no longer wanted is called off, and its late answer is dropped", async () => {
  const { made, open, asked } = pool(1, 9);
  made.want([1]);
  made.want([2]);
  assert.ok(open.get(1)!.signal.aborted);
  open.get(1)!.give();
  await settle();
  assert.equal(made.get(1), undefined);
  assert.deepEqual(asked, [1, 2]);
});

test("the answer not looked at for longest makes room", async () => {
  const { made, open } = pool(9, 2);
  made.want([1, 2]);
  open.get(1)!.give();
  open.get(2)!.give();
  await settle();
  made.get(1);
  made.want([3]);
  open.get(3)!.give();
  await settle();
  assert.equal(made.get(2), undefined);
  assert.equal(made.get(1), "answer 1");
});

test("a refusal is told once and not asked again while it stays wanted", async () => {
  const { made, open, asked, refused } = pool(1, 9);
  made.want([1]);
  open.get(1)!.fail();
  await settle();
  made.want([1]);
  assert.equal(refused.length, 1);
  assert.deepEqual(asked, [1]);
  made.want([]);
  made.want([1]);
  assert.deepEqual(asked, [1, 1]);
});
