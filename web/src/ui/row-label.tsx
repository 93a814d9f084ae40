/** The row of data that the text is of: its true label, the ways to why the model says what it says, and back to the row. */

import type { Store } from "../core/store";
import type { Session } from "../core/types";

export function Row({ store, session }: { store: Store; session: Session }) {
  const { row: label, reading } = store.state.value;
  if (!label) return null;
  const { row, said, doubt, back, changed } = label, wrong = said && said !== label.true && session.views.includes("attribution");
  const why = () => store.set({ view: "attribution", cause: "strongest", reading: { ...reading, target: said, against: label.true, head: null } });
  return (
    <section class="row-label" aria-label="Row">
      {back && <a href={back}>← Back to the row</a>}
      <span>{row}</span>
      {label.true && <span>true <b>{label.true}</b>{said && <> · predicted <b>{said}</b></>}</span>}
      {changed && <span>The text is another than that of the row.</span>}
      {wrong && <button onClick={why}>Why {said}, not {label.true}?</button>}
      {session.views.includes("lens") && <button onClick={() => store.set({ view: "lens", reading: { ...reading, follow: said || null, cell: null } })}>Layer by layer</button>}
      {doubt && <span>{doubt}</span>}
    </section>
  );
}
