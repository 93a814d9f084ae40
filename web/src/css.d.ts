/** Style sheets are imported for their effect: esbuild puts them into app.css. */
declare module "*.css";
