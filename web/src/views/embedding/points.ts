/** Point renderer: WebGL2, one draw call for all points, moving between two sets of places; Canvas2D where there is none. */

import type { Places } from "../../core/embedding";

/** Where the map lies on screen: pixel = middle + (place + offset) · scale, y upwards. */
export interface Camera {
  scale: number;
  x: number;
  y: number;
}

/** How each point looks: red, green, blue, alpha; and a shape, 0 circle, 1 square, 2 triangle, 3 diamond. */
export interface Looks {
  colours: Uint8Array;
  shapes: Uint8Array;
}

export interface PointRenderer {
  readonly kind: "WebGL2" | "Canvas2D";
  /** In CSS pixels, and how many device pixels each has. */
  resize(width: number, height: number, ratio: number): void;
  /** Places that the points come from, and those that they go to. */
  move(from: Places, to: Places): void;
  looks(looks: Looks): void;
  /** Draw the points a share t of the way, each of this many CSS pixels. */
  draw(camera: Camera, t: number, size: number): void;
  destroy(): void;
}

export function rendererOf(canvas: HTMLCanvasElement, force: string | null = null): PointRenderer {
  const gl = force === "Canvas2D" || (force === null && isSoftware()) ? null : canvas.getContext("webgl2", { antialias: false, depth: false, stencil: false, premultipliedAlpha: true });
  if (!gl) return new CanvasPoints(canvas);
  try {
    return new WebGLPoints(canvas, gl);
  } catch (error) {
    console.warn(error); // a driver that takes no such program
    const other = canvas.cloneNode() as HTMLCanvasElement;
    canvas.replaceWith(other);
    return new CanvasPoints(other);
  }
}

/** Is WebGL2 emulated on the processor? There pixels that are set by hand are quicker. */
function isSoftware(): boolean {
  const gl = document.createElement("canvas").getContext("webgl2");
  const about = gl?.getExtension("WEBGL_debug_renderer_info");
  const name = gl && about ? String(gl.getParameter(about.UNMASKED_RENDERER_WEBGL)) : "";
  gl?.getExtension("WEBGL_lose_context")?.loseContext();
  return /swiftshader|llvmpipe|software|basic render/i.test(name);
}

const VERTEX = `#version 300 es
in vec2 from, to;
in vec4 colour;
in float shape;
uniform vec2 offset, scale;
uniform float t, size;
out vec4 tint;
flat out int form;
void main() {
  gl_Position = vec4((mix(from, to, t) + offset) * scale, 0, 1);
  gl_PointSize = size * (shape > 0.5 ? 1.15 : 1.0) + 1.0;
  tint = colour;
  form = int(shape + 0.5);
}`;

const FRAGMENT = `#version 300 es
precision highp float;
in vec4 tint;
flat in int form;
uniform float size;
uniform bool plain;
out vec4 pixel;
void main() {
  if (plain) {
    pixel = vec4(tint.rgb * tint.a, tint.a);
    return;
  }
  vec2 p = (gl_PointCoord - 0.5) * 2.0;
  float edge = form == 1 ? max(abs(p.x), abs(p.y)) / 0.82
    : form == 2 ? max(abs(p.x) * 1.732 - p.y, p.y * 2.0) / 1.5 + 0.1
    : form == 3 ? abs(p.x) + abs(p.y)
    : length(p);
  float cover = clamp((1.0 - edge) * size * 0.5 + 0.5, 0.0, 1.0);
  if (cover <= 0.0) discard;
  float alpha = tint.a * cover;
  pixel = vec4(tint.rgb * alpha, alpha);
}`;

/** From this many points on, all are squares without soft edges. */
const PLAIN = 20_000;

export class WebGLPoints implements PointRenderer {
  readonly kind = "WebGL2";
  private readonly program: WebGLProgram;
  private readonly buffers: Record<"from" | "to" | "colour" | "shape", WebGLBuffer>;
  private readonly uniform: Record<"offset" | "scale" | "t" | "size" | "plain", WebGLUniformLocation | null>;
  private ratio = 1;
  private count = 0;

  constructor(private readonly canvas: HTMLCanvasElement, private readonly gl: WebGL2RenderingContext) {
    const program = (this.program = gl.createProgram());
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
      const shader = gl.createShader(kind)!;
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) throw new Error(gl.getProgramInfoLog(program) ?? "no program");
    gl.useProgram(program);
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    const attribute = (name: string, size: number, type: number, normal: boolean) => {
      const buffer = gl.createBuffer();
      const at = gl.getAttribLocation(program, name);
      gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
      gl.enableVertexAttribArray(at);
      gl.vertexAttribPointer(at, size, type, normal, 0, 0);
      return buffer;
    };
    this.buffers = {
      from: attribute("from", 2, gl.FLOAT, false), to: attribute("to", 2, gl.FLOAT, false),
      colour: attribute("colour", 4, gl.UNSIGNED_BYTE, true), shape: attribute("shape", 1, gl.UNSIGNED_BYTE, false),
    };
    const at = (name: string) => gl.getUniformLocation(program, name);
    this.uniform = { offset: at("offset"), scale: at("scale"), t: at("t"), size: at("size"), plain: at("plain") };
  }

  resize(width: number, height: number, ratio: number): void {
    this.ratio = ratio;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.gl.viewport(0, 0, this.canvas.width, this.canvas.height);
  }

  move(from: Places, to: Places): void {
    this.count = to.length / 2;
    this.upload("from", from);
    this.upload("to", to);
  }

  looks({ colours, shapes }: Looks): void {
    this.upload("colour", colours);
    this.upload("shape", shapes);
  }

  draw(camera: Camera, t: number, size: number): void {
    const { gl, canvas, ratio } = this;
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(this.uniform.offset, camera.x, camera.y);
    gl.uniform2f(this.uniform.scale, (2 * camera.scale * ratio) / canvas.width, (2 * camera.scale * ratio) / canvas.height);
    gl.uniform1f(this.uniform.t, t);
    gl.uniform1f(this.uniform.size, size * ratio);
    gl.uniform1i(this.uniform.plain, Number(this.count > PLAIN));
    gl.drawArrays(gl.POINTS, 0, this.count);
  }

  destroy(): void {
    for (const buffer of Object.values(this.buffers)) this.gl.deleteBuffer(buffer);
    this.gl.deleteProgram(this.program);
    this.gl.getExtension("WEBGL_lose_context")?.loseContext();
  }

  private upload(name: keyof WebGLPoints["buffers"], values: Float32Array | Uint8Array): void {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffers[name]);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, this.gl.DYNAMIC_DRAW);
  }
}

/** From this many points on, all are squares, whose pixels are set by hand. */
const MANY = 4000;

export class CanvasPoints implements PointRenderer {
  readonly kind = "Canvas2D";
  private readonly pen: CanvasRenderingContext2D;
  private from: Places = new Float32Array();
  private to: Places = new Float32Array();
  /** Points of the same colour and shape, drawn as one path. */
  private groups: { style: string; word: number; alpha: number; shape: number; points: number[] }[] = [];
  private image: ImageData | null = null;
  private width = 1;
  private height = 1;
  private ratio = 1;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.pen = canvas.getContext("2d")!;
  }

  resize(width: number, height: number, ratio: number): void {
    [this.width, this.height, this.ratio] = [width, height, ratio];
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
  }

  move(from: Places, to: Places): void {
    [this.from, this.to] = [from, to];
  }

  looks({ colours, shapes }: Looks): void {
    const groups = new Map<number, CanvasPoints["groups"][number]>();
    const words = new Uint32Array(colours.buffer, colours.byteOffset, shapes.length);
    for (let i = 0; i < shapes.length; i++) {
      const key = words[i] * 4 + shapes[i];
      let group = groups.get(key);
      if (!group) {
        const [red, green, blue, alpha] = colours.subarray(4 * i, 4 * i + 4);
        groups.set(key, (group = { word: words[i], style: `rgb(${red}, ${green}, ${blue})`, alpha: alpha / 255, shape: shapes[i], points: [] }));
      }
      group.points.push(i);
    }
    this.groups = [...groups.values()].sort((a, b) => a.alpha - b.alpha);
  }

  draw(camera: Camera, t: number, size: number): void {
    const { pen, from, to, width, height } = this;
    if (to.length / 2 > MANY) return this.splat(camera, t, size);
    pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const r = size / 2;
    for (const { style, alpha, shape, points } of this.groups) {
      pen.fillStyle = style;
      pen.globalAlpha = alpha;
      pen.beginPath();
      for (const i of points) {
        const x = width / 2 + (from[2 * i] + t * (to[2 * i] - from[2 * i]) + camera.x) * camera.scale;
        const y = height / 2 - (from[2 * i + 1] + t * (to[2 * i + 1] - from[2 * i + 1]) + camera.y) * camera.scale;
        if (x < -r || y < -r || x > width + r || y > height + r) continue;
        outline(pen, shape, x, y, r);
      }
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  /** Each point a square of pixels in an image. */
  private splat(camera: Camera, t: number, size: number): void {
    const { pen, from, to, ratio, canvas: { width, height } } = this;
    if (this.image?.width !== width || this.image.height !== height) this.image = pen.createImageData(width, height);
    const pixels = new Uint32Array(this.image.data.buffer).fill(0);
    const side = Math.max(1, Math.round(size * ratio));
    const scale = camera.scale * ratio;
    const [left, top] = [width / 2 + camera.x * scale - side / 2, height / 2 - camera.y * scale - side / 2];
    for (const { word, alpha, points } of this.groups) {
      if (!alpha) continue;
      for (const i of points) {
        const x = Math.round(left + (from[2 * i] + t * (to[2 * i] - from[2 * i])) * scale);
        const y = Math.round(top - (from[2 * i + 1] + t * (to[2 * i + 1] - from[2 * i + 1])) * scale);
        if (x < 0 || y < 0 || x + side > width || y + side > height) continue;
        for (let row = y * width + x, end = row + side * width; row < end; row += width) for (let at = row; at < row + side; at++) pixels[at] = word;
      }
    }
    pen.putImageData(this.image, 0, 0);
  }

  destroy(): void {
    this.groups = [];
  }
}

/** The outline of a point's shape, added to a path. */
export function outline(pen: CanvasRenderingContext2D, shape: number, x: number, y: number, r: number): void {
  const path = corners(shape, r);
  if (!path.length) {
    pen.moveTo(x + r, y);
    pen.arc(x, y, r, 0, 2 * Math.PI);
    return;
  }
  path.forEach(([dx, dy], at) => (at ? pen.lineTo(x + dx, y + dy) : pen.moveTo(x + dx, y + dy)));
  pen.closePath();
}

/** The corners of a shape about its middle, y downwards; none of a circle. */
export function corners(shape: number, r: number): [number, number][] {
  const s = 0.88 * r;
  if (shape === 1) return [[-s, -s], [s, -s], [s, s], [-s, s]];
  if (shape === 2) return [[0, -1.1 * r], [r, 0.7 * r], [-r, 0.7 * r]];
  if (shape === 3) return [[0, -1.15 * r], [1.15 * r, 0], [0, 1.15 * r], [-1.15 * r, 0]];
  return [];
}
