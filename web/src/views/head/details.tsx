/** Details panel of the head view: exact probabilities of the selected token, or a summary of each head. */

import { Ablation } from "./ablation";
import { EmbeddingLookup } from "./embedding-lookup";
import { number, percent, plural, rank, visible } from "../../core/format";
import type { Link } from "./links";
import { type HeadController, visibleScores } from "./head-controller";
import { Term } from "../../ui/term";

/** Rows of a list before the rest is one number. */
const MOST = 8;

export function Details({ controller }: { controller: HeadController }) {
  const [query, key] = [controller.query.value, controller.key.value];
  return (
    <aside class="head-details" aria-label="Numbers">
      {query !== null && key !== null && controller.knows(query) && <Pair controller={controller} query={query} of={key} />}
      {query !== null ? <From controller={controller} query={query} /> : key !== null ? <To controller={controller} token={key} /> : <Chosen controller={controller} />}
      <EmbeddingLookup controller={controller} />
      <Ablation controller={controller} />
    </aside>
  );
}

/** One link: its exact number, and the same link in the other heads. */
function Pair({ controller, query, of }: { controller: HeadController; query: number; of: number }) {
  const prob = controller.prob(query, of);
  const exact = controller.exact.value?.query === query ? controller.exact.value : null;
  return (
    <section>
      <h3><Token text={controller.queryTokens.value[query].text} /> → <Token text={controller.keyTokens.value[of].text} /></h3>
      {prob === null ? <p>Not among the strongest of this token.</p> : <p class="head-exact">{number(prob)}</p>}
      {exact && <p>{exact.scores[of] === -Infinity ? "This token cannot see that one." : <><Term of="rank" /> {rank(exact.probs, of)} of {visibleScores(exact)} · <Term of="score" /> {number(exact.scores[of])}</>}</p>}
    </section>
  );
}

/** Whom a token looks at: by the head in focus exactly, and the strongest of each other head. */
function From({ controller, query }: { controller: HeadController; query: number }) {
  const exact = controller.exact.value?.query === query ? controller.exact.value : null;
  const listed = controller.listed(query);
  const focus = listed.filter((link) => controller.mixed.value || controller.isFocus(link));
  const top: { key: number; prob: number }[] = exact
    ? Array.from(exact.probs, (prob, key) => ({ key, prob })).filter(({ key, prob }) => prob > 0 && controller.looksTo(key)).sort((a, b) => b.prob - a.prob)
    : focus;
  const shown = top.slice(0, MOST);
  const rest = 1 - shown.reduce((sum, { prob }) => sum + prob, 0);
  const others = controller.mixed.value ? [] : strongestOfEach(controller, listed);
  const colour = controller.colour(controller.mixed.value ? null : controller.request.value.heads[0], "var(--accent)");
  return (
    <section>
      <h3>from <Token text={controller.queryTokens.value[query].text} /> <small>token {query}</small></h3>
      <p><Dot colour={colour} /> {controller.subject.value}</p>
      {!controller.looksFrom(query) && <p>The pair filter leaves this token out.</p>}
      <ol class="head-ranking">
        {shown.map(({ key, prob }) => (
          <li key={key} style={{ "--share": prob, "--hue": colour }}>
            <button class="quiet" title={`Pin token ${key}`} onClick={() => controller.props.set({ key })}><Token text={controller.keyTokens.value[key].text} /> <small>{key}</small></button>
            <span title={number(prob)}>{percent(prob)}</span>
          </li>
        ))}
        {controller.knows(query) && rest > 0.0005 && controller.request.value.mix !== "max" && <li class="other" style={{ "--share": rest }}><span>other</span><span>{percent(rest)}</span></li>}
      </ol>
      {others.length > 0 && (
        <>
          <p>The strongest of each other head</p>
          <ol class="head-ranking">
            {others.slice(0, 2 * MOST).map(({ layer, head, link }) => (
              <li key={`${layer} ${head}`} style={{ "--share": link.prob, "--hue": controller.colour(head, "var(--accent)") }}>
                <span><Dot colour={controller.colour(head, "var(--accent)")} /> {layer} · {head} <Token text={controller.keyTokens.value[link.key].text} /> <small>{link.key}</small></span>
                <span title={number(link.prob)}>{percent(link.prob)}</span>
              </li>
            ))}
            {others.length > 2 * MOST && <li><span>and {plural(others.length - 2 * MOST, "head")} more</span></li>}
          </ol>
        </>
      )}
    </section>
  );
}

function strongestOfEach(controller: HeadController, listed: Link[]): { layer: number; head: number; link: Link }[] {
  return controller.members.value.flatMap(([layer, head], lane) => {
    const link = listed.find((each) => each.lane === lane);
    return link && !controller.isFocus(link) ? [{ layer, head, link }] : [];
  });
}

/** Who looks at a token. */
function To({ controller, token }: { controller: HeadController; token: number }) {
  const links = controller.linksTo(token);
  return (
    <section>
      <h3>to <Token text={controller.keyTokens.value[token].text} /> <small>token {token}</small></h3>
      <p>What attends to it, among the {plural(controller.onScreen.value.length, "token")} on screen</p>
      <ol class="head-ranking">
        {links.slice(0, 2 * MOST).map((link) => {
          const colour = controller.colour(controller.headOf(link), "var(--accent)");
          return (
            <li key={`${link.query} ${link.lane}`} style={{ "--share": link.prob, "--hue": colour }}>
              <button class="quiet" title={`Pin token ${link.query}`} onClick={() => controller.props.set({ query: link.query })}>
                <Dot colour={colour} /> <Token text={controller.queryTokens.value[link.query].text} /> <small>{link.query}</small>
              </button>
              <span title={number(link.prob)}>{percent(link.prob)}</span>
            </li>
          );
        })}
      </ol>
      {links.length === 0 && controller.complete.value && <p>None of their strongest links leads here.</p>}
    </section>
  );
}

/** Nothing is looked at: what each head does, in a sentence. */
function Chosen({ controller }: { controller: HeadController }) {
  const { state, overviews } = controller.props;
  const { heads, layers, map } = state.value;
  const summaries = overviews.value.get(`${map}/${layers[0]}`)?.summaries;
  return (
    <section>
      <h3>{controller.mixed.value ? `The ${controller.subject.value}` : layers[0] === layers[1] ? `Layer ${layers[0]}` : `Layers ${layers[0]} to ${layers[1]}`}</h3>
      <ul class="head-heads">
        {[...heads].sort((a, b) => a - b).slice(0, 2 * MOST).map((head) => (
          <li key={head}><Dot colour={controller.colour(head, "var(--accent)")} /> <b>head {head}</b> <span>{summaries?.[head] ?? ""}</span></li>
        ))}
      </ul>
      {heads.length > 2 * MOST && <p>and {plural(heads.length - 2 * MOST, "head")} more</p>}
      {layers[0] !== layers[1] && summaries && <p><small>These words are about layer {layers[0]}.</small></p>}
      <p><small>Tap or point at a token to see only its lines. Click to pin it.</small></p>
    </section>
  );
}

const Dot = ({ colour }: { colour: string }) => <i class="head-dot" style={{ background: colour }} aria-hidden="true" />;
const Token = ({ text }: { text: string }) => <b class="token">{visible(text)}</b>;
