/** What goes between the page in a cell and the kernel, through the widget around its frame; as in integrations/anywidget.py. */

/** A request of the page, or the end of one that it no longer waits for. */
export interface CellRequest {
  id: number;
  method?: string;
  target?: string;
  body?: string;
  stop?: true;
}

/** A piece of the answer: first its head, then its bytes until there are no more. */
export interface CellAnswer {
  id: number;
  status?: number;
  headers?: [string, string][];
  bytes?: ArrayBuffer;
  more?: boolean;
}

/** To the page: a piece of an answer, or that no further one will come. */
export type ToPage = CellAnswer | { ended: string };
