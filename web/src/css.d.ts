/** Type declarations of CSS imports: esbuild bundles them into app.css. */
declare module "*.css";
