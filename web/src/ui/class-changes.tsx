/** Classes or tokens before and after a patch: two bars each, and their numbers. */

import { number, percent, visible } from "../core/format";
import type { ClassChange } from "../core/patching";
import "./class-changes.css";

export function ClassChanges({ classes, label }: { classes: ClassChange[]; label: string }) {
  const most = Math.max(...classes.flatMap((each) => [each.probability_before ?? 0, each.probability_after ?? 0]), 1e-9);
  return (
    <table class="changes" aria-label={label}>
      <thead><tr><th scope="col">prediction</th><th scope="col"><span class="unseen">bars</span></th><th scope="col">before</th><th scope="col">after</th></tr></thead>
      <tbody>
        {classes.map((each) => {
          const { probability_before: before, probability_after: after } = each;
          return (
            <tr key={each.name}>
              <th scope="row" class="token" title={`logit ${number(each.logit_before)} → ${number(each.logit_after)}`}>{visible(each.name)}</th>
              <td aria-hidden="true">{before !== null && after !== null && <span class="changes-bars"><i style={{ width: `${(100 * before) / most}%` }} /><u style={{ width: `${(100 * after) / most}%` }} /></span>}</td>
              <td>{before === null ? number(each.logit_before) : percent(before)}</td>
              <td><b>{after === null ? number(each.logit_after) : percent(after)}</b></td>
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
