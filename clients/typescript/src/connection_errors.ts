/** What helps against a connection that fails for want of TLS or of certificates, where its own error misleads. */

const UNTRUSTED = [
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "CERT_SIGNATURE_FAILURE",
];

/** A connection of which the server has not said a word. */
export interface Attempt {
  isEncrypted: boolean;
  /** Whether it was connected, with TLS after its handshake. */
  isConnected: boolean;
  /** The path of the file of certificate authorities. */
  ca?: string | undefined;
  /** The path of the file of the client certificate. */
  cert?: string | undefined;
}

/** What helps, undefined if the error says enough by itself. */
export function hintFor(error: Error, { isEncrypted, isConnected, ca, cert }: Attempt): string | undefined {
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (!isEncrypted) {
    return isConnected
      ? "the server closed the connection before its first word: if it demands TLS, set ca or an https:// address"
      : undefined;
  }
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER" || error.message.includes("wrong version number")) {
    return "the server does not speak TLS at this address: leave out https://, ca and cert";
  }
  if (UNTRUSTED.includes(code)) {
    return ca
      ? `the server's certificate is not signed by the CA in ${ca}`
      : "the server's certificate is signed by no CA that Node knows: set ca to the one that signed it";
  }
  if (code.includes("ALERT_CERTIFICATE_REQUIRED")) return "the server demands a client certificate, and none is set";
  if (!isConnected && !code.includes("ALERT")) return undefined;
  return cert
    ? `the server refused the connection after the client certificate ${cert} was shown`
    : "the server closed the connection after the handshake: if it demands a client certificate, set cert and key";
}
