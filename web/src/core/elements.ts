/** What JSX is compiled to: web/build.mjs puts it into every module of the explorer. */

export { createElement, Fragment } from "preact";
