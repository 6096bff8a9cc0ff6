"""The signature at the end of a kernel module: where it is, and whether it is that of one of a kernel's own keys.

A CMS (PKCS#7) message without the data that it signs, the trailer ``struct module_signature`` and a line of text
(``include/linux/module_signature.h``, ``scripts/sign-file.c``). The certificates to check it with are in vmlinux
(``certs/system_certificates.S``). The facts here are those of 6.1 and 6.12, which do not differ in them.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from prologue.elf.image import ElfImage
from prologue.elf.symbols import Symbols
from prologue.errors import InputError
from prologue.installation import check_installation, how_to_install

_MARKER: Final = b"~Module signature appended~\n"
# struct module_signature: algo, hash, id_type, signer_len, key_id_len, 3 of padding, and the length, big-endian.
_TRAILER: Final = 12
_PKEY_ID_PKCS7: Final = 2
# Room for everything that a message may say, and nothing near the size of a module.
_MAX_MESSAGE: Final = 1 << 20

# What pkcs7_sig_note_digest_algo takes (crypto/asymmetric_keys/pkcs7_parser.c, 6.12) and Python has.
_DIGESTS: Final = frozenset({"sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "sha3_384", "sha3_512"})
# And pkcs7_sig_note_pkey_algo: rsaEncryption, which asn1crypto names by its use here, and ECDSA with a digest.
_RSA: Final = "rsassa_pkcs1v15"
_ECDSA: Final = frozenset(f"{digest}_ecdsa" for digest in _DIGESTS)

SignatureVerdict = Literal["good", "bad", "unknown-key"]


@dataclass(frozen=True, slots=True)
class Signature:
    """``start`` is where the appended data begin: the size of the module proper, which is what was signed."""

    start: int
    pkcs7: bytes


def find_signature(data: bytes | memoryview | mmap.mmap, path: object) -> Signature | None:
    """Take apart what ``sign-file`` appended; None if the file does not end in its marker.

    Raises:
        InputError: a trailer that the kernel would not take (``mod_check_sig`` in ``kernel/module_signature.c``).

    """
    size = len(data) - len(_MARKER)
    if size < 0 or bytes(data[size:]) != _MARKER:
        return None
    end = size - _TRAILER
    if end < 0:
        raise InputError(f"the module signature's marker at {size:#x} has no trailer before it: damaged", path=path)
    trailer = bytes(data[end:size])
    length = int.from_bytes(trailer[8:], "big")
    if not 0 < length < end or length > _MAX_MESSAGE:
        raise InputError(f"the trailer at {end:#x} has a module signature of {length} bytes: damaged", path=path)
    if trailer[2] != _PKEY_ID_PKCS7:
        raise InputError(
            f"the module signature at {end - length:#x} is of type {trailer[2]}; kernels since 4.3 know only PKCS#7 "
            f"({_PKEY_ID_PKCS7}): sign the module anew",
            path=path,
        )
    if any(trailer[:2]) or any(trailer[3:8]):
        raise InputError(f"the module signature's trailer at {end:#x} has other fields than zeros: damaged", path=path)
    return Signature(end - length, bytes(data[end - length : end]))


def check_signature(
    module: bytes | memoryview | mmap.mmap, pkcs7: bytes, certificates: Sequence[bytes], path: object = None
) -> SignatureVerdict:
    """Check the message ``pkcs7`` for ``module``, which ends where the signature starts.

    ``good``: made with the key of one of the certificates (DER), for these bytes. ``bad``: not for these bytes.
    ``unknown-key``: none of the certificates is the signer's; nothing is known of the bytes. Dates do not count, nor
    do certificates inside of the message. With several signers all that can be checked must be right.

    Raises:
        InputError: a damaged message or certificate, algorithms that we do not know, signed attributes, or libraries
            that are missing. With signed attributes ``pkcs7_verify`` ("has authattrs", 6.1 to 7.2) loads no module, but
            for those of ML-DSA in 7.2, which we do not know.

    """
    try:
        import cryptography  # noqa: F401 - used below
        from asn1crypto import cms, x509
    except ImportError as missing:
        how = how_to_install("live", "asn1crypto", "cryptography")
        raise InputError(f"{missing.name} is missing, which checks signatures: {how}", path=path) from missing
    try:
        message = cms.ContentInfo.load(pkcs7, strict=True)
        if message["content_type"].native != "signed_data":
            raise ValueError("no signed data")
        signed = message["content"]
        enclosed = signed["encap_content_info"]
        if enclosed["content_type"].native != "data" or enclosed["content"].native is not None:
            raise ValueError("it carries data of its own")
        known = [x509.Certificate.load(certificate) for certificate in certificates]
        verdicts = {_check_signer(signer, module, known) for signer in signed["signer_infos"]}
    except _DAMAGE as error:
        check_installation()
        # asn1crypto says on further lines what it was reading.
        problem = " ".join(str(error).split())
        raise InputError(f"module signature or certificate not understood ({problem})", path=path) from error
    if not verdicts:
        raise InputError("the module signature names no signer: damaged", path=path)
    order: tuple[SignatureVerdict, ...] = ("bad", "good", "unknown-key")
    return next(verdict for verdict in order if verdict in verdicts)


def certificates_in(listed: bytes, path: object = None) -> list[bytes]:
    """Split certificates that stand one after the other, as in a kernel's built-in list.

    Raises:
        InputError: something else stands there (``x509_load_certificate_list`` in
            ``crypto/asymmetric_keys/x509_loader.c`` takes only SEQUENCEs with a length of two bytes, too).

    """
    result, at = [], 0
    while at < len(listed):
        end = at + 4 + int.from_bytes(listed[at + 2 : at + 4], "big")
        if listed[at : at + 2] != b"\x30\x82" or end > len(listed):
            raise InputError(f"no whole certificate at {at:#x} of the built-in list: damaged", path=path)
        result.append(listed[at:end])
        at = end
    return result


def kernel_certificates(image: ElfImage, symbols: Symbols) -> list[bytes]:
    """Return the certificates that a vmlinux trusts from the start, its own key for modules first.

    Empty without CONFIG_SYSTEM_TRUSTED_KEYRING. The list goes on into ``system_extra_cert``, if that is used:
    ``scripts/insert-sys-cert.c`` counts it in.

    Raises:
        InputError: the list is not where its symbols say, or is damaged.

    """
    start, size = symbols.find("system_certificate_list"), symbols.find("system_certificate_list_size")
    if start is None or size is None:
        return []
    length = image.read_at(size.vaddr, 8)
    listed = None if length is None else image.read_at(start.vaddr, int.from_bytes(length, "little"))
    if listed is None:
        raise InputError("system_certificate_list is not in the file's sections: stripped or damaged", path=image.path)
    return certificates_in(listed, image.path)


# What asn1crypto raises on damaged input, from any access, as it reads only what is asked for.
_DAMAGE: Final = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


def _check_signer(signer: Any, module: bytes | memoryview | mmap.mmap, known: Sequence[Any]) -> SignatureVerdict:
    from asn1crypto import core

    algorithm = signer["digest_algorithm"]["algorithm"].native
    if algorithm not in _DIGESTS:
        raise ValueError(f"digest algorithm {algorithm}")
    if not isinstance(signer["signed_attrs"], core.Void):
        raise ValueError("signed attributes")
    digest = hashlib.new(algorithm, module).digest()
    keys = [certificate.public_key.dump() for certificate in known if _is_signer(certificate, signer["sid"])]
    if not keys:
        return "unknown-key"
    how = signer["signature_algorithm"]["algorithm"].native
    if how != _RSA and how not in _ECDSA:
        raise ValueError(f"signature algorithm {how}")
    return "good" if any(_verifies(key, signer["signature"].native, digest, algorithm, how) for key in keys) else "bad"


def _is_signer(certificate: Any, sid: Any) -> bool:
    """Return whether the message names this certificate; names are compared by byte, as the kernel does."""
    if sid.name == "subject_key_identifier":
        return bool(certificate.key_identifier == sid.chosen.native)
    return bool(
        certificate.serial_number == sid.chosen["serial_number"].native
        and certificate.issuer.dump() == sid.chosen["issuer"].dump()
    )


def _verifies(key: bytes, signature: bytes, digest: bytes, algorithm: str, how: str) -> bool:
    """Return whether the signature of ``digest`` is right; a key of another kind than ``how`` says did not make it."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

    prehashed = utils.Prehashed(getattr(hashes, algorithm.upper())())
    try:
        public = serialization.load_der_public_key(key)
        if isinstance(public, rsa.RSAPublicKey) and how == _RSA:
            public.verify(signature, digest, padding.PKCS1v15(), prehashed)
        elif isinstance(public, ec.EllipticCurvePublicKey) and how in _ECDSA:
            public.verify(signature, digest, ec.ECDSA(prehashed))
        else:
            return False
    except InvalidSignature:
        return False
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from error
    return True
