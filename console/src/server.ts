// Requests to the server that the console comes from, with the user's token.

const TOKEN = "rowstream.token";
/** The console is at `/_rowstream/`, or wherever a proxy has that. */
export const ADMIN = new URL("./", location.href.split("#")[0]!);
export const ROOT = new URL("../", ADMIN);

export const token = (): string => sessionStorage.getItem(TOKEN) ?? "";

export function setToken(text: string): void {
  if (text) sessionStorage.setItem(TOKEN, text);
  else sessionStorage.removeItem(TOKEN);
}

export interface Problem {
  title?: string;
  status?: number;
  code?: string;
  detail?: string;
  hint?: string;
  sqlstate?: string;
  [member: string]: unknown;
}

export function request(url: URL | string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  if (token()) headers.set("Authorization", `Bearer ${token()}`);
  return fetch(url, { ...init, headers, cache: "no-store", credentials: "omit" });
}

export async function problemOf(response: Response): Promise<Problem> {
  try {
    return (await response.json()) as Problem;
  } catch {
    return { status: response.status, title: response.statusText || `status ${response.status}` };
  }
}

/** An admin endpoint's JSON. */
export async function ask<T>(name: string, init: RequestInit = {}): Promise<T> {
  const response = await request(new URL(name, ADMIN), init);
  if (!response.ok) throw await problemOf(response);
  return (await response.json()) as T;
}
